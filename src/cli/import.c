/* import.c -- otlite import: what export wrote into a data directory that no daemon serves.
 *
 * OTLP JSON lines go the way of requests: decoded here, a transaction each on the writer thread, a
 * few under way at once. CSV and OpenMetrics are made into such requests first (convert.h). What is
 * reported as stored is committed. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "otlite/arena.h"
#include "otlite/cli.h"
#include "otlite/clock.h"
#include "otlite/convert.h"
#include "otlite/decode.h"
#include "otlite/log.h"
#include "otlite/maintain.h"
#include "otlite/state.h"
#include "otlite/writer.h"

#include "cli/data_dir.h"
#include "cli/options.h"

enum {
    UNDER_WAY = 4, /* lines that are decoded or wait for the writer */
    PROGRESS_NS = NS_PER_S / 4,
    REST_US = 10000 /* for sealing, when the head is full */
};

struct importer;

/* One request under way: a line of OTLP JSON, or what was made of lines of text. */
struct line {
    struct importer *im;
    struct write_job job;
    struct arena arena;
    struct batch batch;
    struct buf text;
    uint64_t number; /* of its first line */
    bool busy;       /* not free for another line */
    bool again;      /* came back because the head is full: to be submitted once more */
};

struct importer {
    const struct config *config;
    const char *path; /* for messages */
    FILE *in;
    off_t size; /* of the input; 0: not known */
    enum text_format format;
    struct converter *converter; /* NULL: OTLP JSON */
    char *text;                  /* the line that was read last */
    size_t cap;
    uint64_t first_line; /* of the request that is being made */
    struct state *state;
    struct writer *writer;
    struct maintainer *maintainer;
    struct handoff back;
    struct decode_limits limits;
    int64_t project_id;
    struct line lines[UNDER_WAY];
    unsigned n_busy;

    uint64_t n_lines, bytes;
    uint64_t received, stored, merged, replaced, rejected[REJECT_COUNT_OF_REASONS];
    uint64_t reject_line[REJECT_COUNT_OF_REASONS]; /* the first one */
    int64_t next_progress_ns;

    enum otl_err rc; /* of the first line that failed */
    struct otl_error err;
};

/* ---- what came of a line ---- */

static void fail(struct importer *im, const struct line *l, const struct otl_error *why)
{
    if (im->rc != OTL_OK)
        return;
    im->err = *why;
    im->rc = otl_wrap(&im->err, "%.200s, line %" PRIu64, im->path, l->number);
}

static void count(struct importer *im, const struct line *l)
{
    const struct batch *b = &l->batch;

    im->received += b->received;
    im->stored += l->job.result.stored + l->job.result.replaced;
    im->merged += l->job.result.merged;
    im->replaced += l->job.result.replaced;
    for (int r = 0; r < REJECT_COUNT_OF_REASONS; r++) {
        if (b->rejected[r] > 0 && im->rejected[r] == 0)
            im->reject_line[r] = l->number;
        im->rejected[r] += b->rejected[r];
    }
}

static void line_done(struct handoff_item *item)
{
    struct line *l = (struct line *)(void *)((char *)item - offsetof(struct line, job.done));
    struct importer *im = l->im;

    im->n_busy--;
    l->again = l->job.rc == OTL_EBUSY;
    if (l->again)
        return;
    if (l->job.rc == OTL_OK)
        count(im, l);
    else
        fail(im, l, &l->job.err);
    arena_reset(&l->arena, (size_t)im->config->otlp_decode_memory);
    l->busy = false;
}

/* Wait until one line comes back. */
static void wait_for_one(struct importer *im)
{
    struct pollfd p = {.fd = im->back.fd, .events = POLLIN};

    while (poll(&p, 1, -1) < 0 && errno == EINTR) {
    }
    (void)handoff_drain(&im->back);
}

/* ---- the way in ---- */

static enum otl_err submit(struct importer *im, struct line *l, struct otl_error *err)
{
    enum otl_err rc;

    l->again = false;
    l->job = (struct write_job){.reply_to = &im->back,
                                .done = {.run = line_done},
                                .batch = &l->batch,
                                .project_id = im->project_id,
                                .bytes = l->arena.used};
    rc = writer_submit(im->writer, &l->job, err);
    if (rc == OTL_OK) {
        l->busy = true;
        im->n_busy++;
    }
    return rc;
}

/* Lines that came back for want of room are offered again once sealing has had a moment. */
static void offer_again(struct importer *im)
{
    bool rested = false;

    for (int i = 0; i < UNDER_WAY; i++) {
        struct line *l = &im->lines[i];
        struct otl_error err = {0};

        if (!l->again)
            continue;
        if (!rested)
            (void)usleep(REST_US);
        rested = true;
        if (submit(im, l, &err) != OTL_OK) {
            fail(im, l, &err);
            l->busy = l->again = false;
        }
    }
}

/* Until no more than n lines are under way, or one has failed. */
static void settle(struct importer *im, unsigned n)
{
    for (;;) {
        unsigned waiting = 0;

        for (int i = 0; i < UNDER_WAY; i++)
            waiting += im->lines[i].busy;
        if (waiting <= n)
            return;
        if (im->n_busy > 0)
            wait_for_one(im);
        offer_again(im);
    }
}

/* The request in l->text, whose first line is number. */
static void take_request(struct importer *im, struct line *l, uint64_t number)
{
    struct otl_error err = {0};
    enum otl_err rc = OTL_OK;

    l->number = number;
    memset(&l->batch, 0, sizeof(l->batch));
    if (l->text.failed)
        rc = otl_fail(&err, OTL_ENOMEM, "no memory");
    if (rc == OTL_OK)
        rc = decode_body(ENCODING_JSON, buf_bytes(&l->text), &im->limits, clock_wall_ns(),
                         &l->arena, &l->batch, &err);
    if (rc == OTL_OK)
        rc = submit(im, l, &err);
    if (rc != OTL_OK) {
        arena_reset(&l->arena, (size_t)im->config->otlp_decode_memory);
        fail(im, l, &err);
    }
}

/* The last line of n bytes, or the end of the input (n 0): a request when one is whole. */
static void take_line(struct importer *im, struct line *l, size_t n, bool end)
{
    struct bytes line = bytes_of(im->text, n), request = line;
    struct otl_error err = {0};
    enum otl_err rc = OTL_OK;

    if (im->converter == NULL) {
        while (request.n > 0 && strchr(" \t\r\n", request.p[request.n - 1]) != NULL)
            request.n--;
        im->first_line = im->n_lines;
    } else if (end) {
        rc = converter_end(im->converter, &request, &err);
    } else {
        rc = converter_line(im->converter, line, &request, &err);
    }
    if (rc != OTL_OK) {
        im->err = err;
        im->rc = otl_wrap(&im->err, "%.200s, line %" PRIu64, im->path, im->n_lines);
        return;
    }
    if (request.n == 0)
        return; /* an empty line, or more belongs to it */
    buf_reset(&l->text);
    buf_add_bytes(&l->text, request);
    take_request(im, l, im->first_line);
    im->first_line = im->n_lines + 1;
}

/* What the file is, by its first line, unless the user said it. */
static enum otl_err use_format(struct importer *im, const char *format, struct bytes line,
                               struct otl_error *err)
{
    if (strcmp(format, "otlp-json") == 0)
        im->format = TEXT_OTLP_JSON;
    else if (strcmp(format, "csv") == 0)
        im->format = TEXT_CSV;
    else if (strcmp(format, "openmetrics") == 0)
        im->format = TEXT_OPENMETRICS;
    else
        im->format = text_format_of(line);
    im->first_line = 1;
    if (im->format == TEXT_OTLP_JSON)
        return OTL_OK;
    return converter_new(im->format, clock_wall_ns(), &im->converter, err);
}

static void show_progress(struct importer *im, bool last)
{
    int64_t now = clock_mono_ns();

    if (isatty(STDERR_FILENO) != 1 || (!last && now < im->next_progress_ns))
        return;
    im->next_progress_ns = now + PROGRESS_NS;
    if (last)
        fprintf(stderr, "%-60s\r", "");
    else if (im->size > 0)
        fprintf(stderr, "%3d %%  %" PRIu64 " points stored\r",
                (int)(100.0 * (double)im->bytes / (double)im->size), im->stored);
    else
        fprintf(stderr, "%" PRIu64 " lines  %" PRIu64 " points stored\r", im->n_lines, im->stored);
}

/* Into im->text. False: there is no more, or im->rc says why. */
static bool read_line(struct importer *im, size_t *out_n)
{
    ssize_t n;

    errno = 0;
    n = getdelim(&im->text, &im->cap, '\n', im->in);
    if (n < 0 && ferror(im->in) != 0)
        im->rc = otl_fail(&im->err, errno == ENOMEM ? OTL_ENOMEM : OTL_EIO,
                          "cannot read %.200s: %s", im->path, strerror(errno));
    if (n < 0)
        return false;
    if ((uint64_t)n > (uint64_t)im->config->http_max_body) {
        im->rc = otl_fail(&im->err, OTL_ETOOBIG,
                          "%.200s, line %" PRIu64 " has %zd bytes, more than http.max_body; "
                          "import with --set http.max_body=1G",
                          im->path, im->n_lines + 1, n);
        return false;
    }
    im->n_lines++;
    im->bytes += (uint64_t)n;
    *out_n = (size_t)n;
    return true;
}

/* Lines end at the first one that fails; what was stored before stays. */
static enum otl_err read_lines(struct importer *im, const char *format, struct otl_error *err)
{
    bool more = true;

    while (im->rc == OTL_OK && more) {
        struct line *l = im->lines;
        size_t n = 0;

        settle(im, UNDER_WAY - 1);
        while (l->busy)
            l++;
        more = read_line(im, &n);
        if (more && im->n_lines == 1 && im->rc == OTL_OK)
            im->rc = use_format(im, format, bytes_of(im->text, n), &im->err);
        if (im->rc == OTL_OK)
            take_line(im, l, n, !more);
        show_progress(im, false);
    }
    settle(im, 0);
    show_progress(im, true);
    if (im->rc != OTL_OK)
        *err = im->err;
    return im->rc;
}

/* ---- start and end ---- */

static enum otl_err before_batch(void *arg, int64_t project_id, const struct batch *b,
                                 struct otl_error *err)
{
    struct importer *im = arg;

    return state_note_batch(im->state, project_id, b, err);
}

static enum otl_err start(struct importer *im, const char *project, struct otl_error *err)
{
    const struct config *c = im->config;
    struct writer_opts w = {
        .max_queue_bytes = (size_t)c->queue_max_bytes,
        .max_queue_jobs = (size_t)c->queue_max_requests,
        .max_age_ms = INT64_MAX / NS_PER_MS, /* nobody waits for the answer with a deadline */
        .before_batch = before_batch,
        .arg = im,
        .max_bytes = c->retention_max_bytes,
    };
    struct maintain_opts m; /* seals what comes in; retention is the daemon's */
    enum otl_err rc;

    cli_store_opts(c, &w.store);
    m = (struct maintain_opts){.store = w.store, .rollups = c->rollups};
    cli_decode_limits(c, &im->limits);
    im->limits.max_points = 0; /* lines are as long as they are */
    arena_set_process_limit(0);
    for (int i = 0; i < UNDER_WAY; i++) {
        im->lines[i].im = im;
        arena_init(&im->lines[i].arena, (size_t)c->otlp_decode_memory);
    }
    rc = state_open(c->data, &im->state, err);
    if (rc == OTL_OK)
        rc = state_project(im->state, project, &im->project_id, err);
    if (rc == OTL_OK)
        rc = handoff_init(&im->back, err);
    if (rc != OTL_OK)
        return rc;
    rc = writer_start(&w, &im->writer, err);
    if (rc == OTL_OK)
        rc = maintainer_start(&m, im->writer, &im->maintainer, err);
    return rc;
}

static void stop(struct importer *im)
{
    if (im->maintainer != NULL)
        maintainer_stop(im->maintainer);
    maintainer_free(im->maintainer);
    if (im->writer != NULL) {
        writer_stop(im->writer);
        (void)handoff_drain(&im->back);
        writer_free(im->writer);
        handoff_fini(&im->back);
    }
    state_close(im->state);
    converter_free(im->converter);
    free(im->text);
    for (int i = 0; i < UNDER_WAY; i++) {
        arena_fini(&im->lines[i].arena);
        buf_fini(&im->lines[i].text);
    }
}

static enum otl_err open_input(struct importer *im, const char *path, struct otl_error *err)
{
    struct stat st;

    im->path = strcmp(path, "-") == 0 ? "standard input" : path;
    im->in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (im->in == NULL)
        return otl_fail(err, OTL_ENOTFOUND, "cannot read %.256s: %s", path, strerror(errno));
    if (fstat(fileno(im->in), &st) == 0 && S_ISREG(st.st_mode))
        im->size = st.st_size;
    return OTL_OK;
}

/* Everything that was received is in one of these. */
static void print_summary(const struct importer *im)
{
    uint64_t rejected = 0;

    for (int r = 0; r < REJECT_COUNT_OF_REASONS; r++)
        rejected += im->rejected[r];
    printf("%" PRIu64 " lines, %" PRIu64 " points: %" PRIu64 " stored (%" PRIu64
           " of them in the place of others), %" PRIu64 " were there already, %" PRIu64
           " rejected\n",
           im->n_lines, im->received, im->stored, im->replaced, im->merged, rejected);
    for (int r = 0; r < REJECT_COUNT_OF_REASONS; r++) {
        if (im->rejected[r] > 0)
            printf("  %" PRIu64 " rejected: %s (first in line %" PRIu64 ")\n", im->rejected[r],
                   reject_text((enum reject_reason)r), im->reject_line[r]);
    }
}

static enum otl_err import_file(struct importer *im, const char *project, const char *format,
                                const char *path, struct otl_error *err)
{
    int lock = -1;
    enum otl_err rc = open_input(im, path, err);

    if (rc == OTL_OK)
        rc = cli_make_data_dir(im->config->data, err);
    if (rc == OTL_OK)
        rc = cli_lock_data_dir(im->config->data, &lock, err);
    if (rc == OTL_OK)
        rc = start(im, project, err);
    if (rc == OTL_OK)
        rc = read_lines(im, format, err);
    stop(im);
    if (lock >= 0)
        (void)close(lock);
    if (im->in != NULL && im->in != stdin)
        (void)fclose(im->in);
    return rc;
}

static int import_run(int argc, char **argv)
{
    const char *project = "default", *format = "auto";
    const struct cli_flag flags[] = {
        {"project", "NAME", "whose points they are [default]", &project},
        {"format", "FORMAT", "otlp-json, csv or openmetrics [by the first line]", &format},
        {0},
    };
    const struct cli_spec spec = {
        .command = "import",
        .synopsis = "[--project NAME] [--format FORMAT] [--data DIR] FILE|-",
        .about =
            "Store what `otlite export` wrote: OTLP JSON lines, each an\n"
            "ExportMetricsServiceRequest (the Collector's file exporter writes them too), CSV or\n"
            "OpenMetrics text. A line of JSON is one transaction, of the others some thousand\n"
            "lines are. Points that are there already are recognised, so an import that was\n"
            "broken off can be run again. Only OTLP JSON carries everything: see\n"
            "docs/operations.md. Only without a daemon on DIR; with one, send JSON lines to it:\n"
            "  while IFS= read -r l; do printf %s \"$l\" | curl --data-binary @- \\\n"
            "    -H 'Content-Type: application/json' http://127.0.0.1:4318/v1/metrics; done",
        .common = CLI_DATA | CLI_CONFIG,
        .flags = flags,
        .min_args = 1,
        .max_args = 1,
    };
    struct importer im = {0};
    struct otl_error err = {0};
    struct config config;
    struct cli_args args;
    enum otl_err rc;
    int status = cli_parse(&spec, argc, argv, &config, &args);
    bool any_rejected = false;

    if (status != CLI_GO)
        return status;
    if (strcmp(format, "auto") != 0 && strcmp(format, "otlp-json") != 0 &&
        strcmp(format, "csv") != 0 && strcmp(format, "openmetrics") != 0) {
        fprintf(stderr, "otlite import: --format %.60s: otlp-json, csv or openmetrics\n", format);
        config_fini(&config);
        return EX_USAGE;
    }
    im.config = &config;
    rc = import_file(&im, project, format, args.v[0], &err);
    if (im.n_lines > 0)
        print_summary(&im);
    for (int r = 0; r < REJECT_COUNT_OF_REASONS; r++)
        any_rejected = any_rejected || im.rejected[r] > 0;
    config_fini(&config);
    if (rc != OTL_OK)
        return cli_error("import", &err);
    return any_rejected ? EX_DATAERR : EX_OK;
}

const struct cli_command cli_import = {
    "import", "Store what export wrote: OTLP JSON, CSV, OpenMetrics", import_run};
