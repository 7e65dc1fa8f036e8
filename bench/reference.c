/* reference.c -- the command line of `otlite-bench reference`, overload, maintain and soak. */
#include "reference.h"

#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cli/units.h"
#include "otlite/bytes.h"

static const struct reference_command *const references[] = {&reference_r1, &reference_r3,
                                                             &reference_r4, &reference_r5};

enum { REFERENCES = sizeof(references) / sizeof(references[0]), MAX_CONNECTIONS = 20000 };

static volatile sig_atomic_t interrupted;

/* load_run has a handler of its own for SIGINT while it runs, so that is what SIGTERM becomes. */
static void on_interrupt(int sig)
{
    interrupted = 1;
    if (sig != SIGINT)
        (void)raise(SIGINT);
}

bool reference_interrupted(void)
{
    return interrupted != 0;
}

void reference_goal(struct reference_run *run, struct result *r, const char *what, bool at_least,
                    double goal, double measured)
{
    bool met = at_least ? measured >= goal : measured < goal; /* a NAN meets nothing */

    result_note(r, "Goal: %s %s %.10g; measured %.4g: %s.", what, at_least ? "at least" : "under",
                goal, measured,
                isnan(measured) ? "not known"
                : met           ? "met"
                                : "not met");
    if (run->n_goals == REFERENCE_MAX_GOALS)
        return;
    run->goals[run->n_goals] =
        (struct reference_goal){.goal = goal, .measured = measured, .at_least = at_least};
    snprintf(run->goals[run->n_goals].what, sizeof(run->goals[0].what), "%s", what);
    run->n_goals++;
}

static enum otl_err report_goals(const struct reference_run *run, struct otl_error *err)
{
    static const struct result_column columns[] = {
        {"goal", "goal", -1},       {"wanted", "wanted", 3}, {"measured", "measured", 3},
        {"verdict", "verdict", -1}, {NULL, NULL, 0},
    };
    struct result *r;
    enum otl_err rc = result_open(run->o->out, "goals", "Goals", run->o->command, columns, &r, err);

    if (rc != OTL_OK)
        return rc;
    for (unsigned i = 0; i < run->n_goals; i++) {
        const struct reference_goal *g = &run->goals[i];
        char what[128];

        snprintf(what, sizeof(what), "%s, %s", g->what, g->at_least ? "at least" : "under");
        result_begin_row(r);
        result_text(r, what);
        result_number(r, g->goal);
        result_number(r, g->measured);
        result_text(r, isnan(g->measured) ? "unknown"
                       : (g->at_least ? g->measured >= g->goal : g->measured < g->goal)
                           ? "met"
                           : "not met");
        result_end_row(r);
    }
    return result_close(r, err);
}

/* --- the command line --- */

static void print_command_help(const struct reference_command *c, const char *prefix, FILE *out)
{
    fprintf(out, "usage: otlite-bench %s%s [OPTION...]\n\n%s\n", prefix, c->name, c->help);
    if (c->step_ms > 0) {
        char step[UNITS_TEXT];

        duration_text(c->step_ms, step);
        fprintf(out,
                "  --step TIME       length of each measured step (or --duration); default %s\n",
                step);
    }
    if (c->has_rate)
        fputs("  --rate N          points a second; default half of what a few seconds show to be "
              "the\n"
              "                    most\n",
              out);
    if (c->requests > 0)
        fprintf(out, "  --requests N      default %lld\n", (long long)c->requests);
    if (c->connections > 0)
        fprintf(out, "  --connections N   default %u\n", c->connections);
    if (c->rounds > 0)
        fprintf(out, "  --rounds N        default %u\n", c->rounds);
    if (!c->own_daemon_only)
        fputs("  --url URL         measure the daemon there, not one of our own\n"
              "  --pid PID         its process, for CPU time and memory\n"
              "  --data DIR        its data directory, to check there what it stored\n",
              out);
    if (!c->own_daemon_only || c->has_settings)
        fputs("  --set KEY=VALUE   a setting of our own daemon; may be given several times\n", out);
    fputs("  --out DIR         also write the results there: JSON, Markdown and a plot\n", out);
}

static void print_help(FILE *out)
{
    fputs("usage: otlite-bench reference NAME [OPTION...]\n\n"
          "Do what a published account did, and print its figures beside ours.\n\n",
          out);
    for (int i = 0; i < REFERENCES; i++)
        fprintf(out, "  %-10s %s\n", references[i]->name, references[i]->summary);
    fputs("  all        all of these and overload, then a table of the goals\n"
          "\notlite-bench reference NAME --help says more.\n",
          out);
}

enum {
    OPT_URL = 256,
    OPT_PID,
    OPT_DATA,
    OPT_OUT,
    OPT_STEP,
    OPT_REQUESTS,
    OPT_RATE,
    OPT_CONNECTIONS,
    OPT_ROUNDS,
    OPT_SET,
    OPT_HELP
};

static const struct option options[] = {
    {"url", required_argument, NULL, OPT_URL},
    {"pid", required_argument, NULL, OPT_PID},
    {"data", required_argument, NULL, OPT_DATA},
    {"out", required_argument, NULL, OPT_OUT},
    {"step", required_argument, NULL, OPT_STEP},
    {"duration", required_argument, NULL, OPT_STEP},
    {"requests", required_argument, NULL, OPT_REQUESTS},
    {"rate", required_argument, NULL, OPT_RATE},
    {"connections", required_argument, NULL, OPT_CONNECTIONS},
    {"rounds", required_argument, NULL, OPT_ROUNDS},
    {"set", required_argument, NULL, OPT_SET},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static bool bad_value(const char *name, const char *value, const char *wanted)
{
    fprintf(stderr, "otlite-bench: --%s %s: it takes %s\n", name, value, wanted);
    return false;
}

static bool take_number(const char *name, const char *value, int64_t max, int64_t *out)
{
    char wanted[64];

    if (int_parse(value, out) && *out >= 1 && *out <= max)
        return true;
    snprintf(wanted, sizeof(wanted), "a number from 1 to %lld", (long long)max);
    return bad_value(name, value, wanted);
}

static bool take_setting(struct reference_opts *o, const char *value)
{
    unsigned n = 0;

    if (strchr(value, '=') == NULL)
        return bad_value("set", value, "KEY=VALUE");
    while (o->settings[n] != NULL)
        n++;
    if (n == REFERENCE_MAX_SETTINGS)
        return bad_value("set", value, "no more settings than it has had");
    o->settings[n] = value;
    return true;
}

static bool take_option(struct reference_opts *o, int opt, const char *value)
{
    int64_t v;

    switch (opt) {
    case OPT_URL:
        o->url = value;
        return true;
    case OPT_PID:
        return take_number("pid", value, INT32_MAX, &o->pid);
    case OPT_DATA:
        o->data = value;
        return true;
    case OPT_OUT:
        o->out = value;
        return true;
    case OPT_STEP:
        if (duration_parse(value, &o->step_ms) && o->step_ms >= 1)
            return true;
        return bad_value("step", value, "a time: 2m, 30s, 300ms");
    case OPT_REQUESTS:
        return take_number("requests", value, INT32_MAX, &o->requests);
    case OPT_RATE:
        return take_number("rate", value, INT32_MAX, &o->rate);
    case OPT_CONNECTIONS:
        if (!take_number("connections", value, MAX_CONNECTIONS, &v))
            return false;
        o->connections = (unsigned)v;
        return true;
    case OPT_ROUNDS:
        if (!take_number("rounds", value, 1000, &v))
            return false;
        o->rounds = (unsigned)v;
        return true;
    case OPT_SET:
        return take_setting(o, value);
    default:
        return false;
    }
}

/* -1: go on; else an exit status. c NULL: for all subcommands, which keep their defaults where an
 * option was not given. */
static int parse_arguments(const struct reference_command *c, const char *prefix, int argc,
                           char **argv, struct reference_opts *o)
{
    int opt;

    optind = 1;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (opt == OPT_HELP) {
            if (c == NULL)
                print_help(stdout);
            else
                print_command_help(c, prefix, stdout);
            return EX_OK;
        }
        if (opt == '?' || !take_option(o, opt, optarg))
            return EX_USAGE;
    }
    if (optind < argc) {
        fprintf(stderr, "otlite-bench: what is '%s'? See --help\n", argv[optind]);
        return EX_USAGE;
    }
    if (o->url == NULL && (o->pid > 0 || o->data != NULL)) {
        fputs("otlite-bench: --pid and --data describe the daemon at --url\n", stderr);
        return EX_USAGE;
    }
    if (o->url != NULL && c != NULL && c->own_daemon_only) {
        fprintf(stderr,
                "otlite-bench: %s measures no daemon but what it starts itself; leave out --url\n",
                c->name);
        return EX_USAGE;
    }
    return -1;
}

static void use_defaults(struct reference_opts *o, const struct reference_command *c)
{
    if (o->step_ms == 0)
        o->step_ms = c->step_ms;
    if (o->requests == 0)
        o->requests = c->requests;
    if (o->connections == 0)
        o->connections = c->connections;
    if (o->rounds == 0)
        o->rounds = c->rounds;
}

static int exit_status(const struct otl_error *err)
{
    switch (err->code) {
    case OTL_ECONFIG:
        return EX_USAGE;
    case OTL_EIO:
    case OTL_ENOTFOUND:
        return EX_UNAVAILABLE;
    case OTL_ENOMEM:
    case OTL_ESYSTEM:
        return EX_OSERR;
    default:
        return EX_SOFTWARE;
    }
}

static int run_one(const struct reference_command *c, const struct reference_opts *given,
                   struct reference_run *run)
{
    struct reference_opts o = *given;
    struct otl_error err = {0};
    enum otl_err rc;

    use_defaults(&o, c);
    run->o = &o;
    run->broken = false;
    rc = c->run(run, &err);
    run->o = given;
    if (rc != OTL_OK) {
        fprintf(stderr, "otlite-bench: %s: %s\n", c->name, err.msg);
        return exit_status(&err);
    }
    return run->broken ? 1 : EX_OK;
}

static int run_all(const struct reference_opts *o, struct reference_run *run)
{
    struct otl_error err = {0};
    int status = EX_OK;

    for (int i = 0; i <= REFERENCES && !interrupted; i++) {
        int got = run_one(i < REFERENCES ? references[i] : &reference_overload, o, run);

        status = status == EX_OK ? got : status;
    }
    run->o = o;
    if (report_goals(run, &err) == OTL_OK)
        return status;
    fprintf(stderr, "otlite-bench: %s\n", err.msg);
    return status == EX_OK ? exit_status(&err) : status;
}

/* c NULL: all. */
static int run_command(const struct reference_command *c, const char *prefix, int argc, char **argv)
{
    struct sigaction sa = {.sa_handler = on_interrupt};
    struct reference_opts o = {0};
    struct reference_run run = {0};
    struct buf command = {0};
    int status = parse_arguments(c, prefix, argc, argv, &o);

    if (status >= 0)
        return status;
    if (sigaction(SIGINT, &sa, NULL) != 0 || sigaction(SIGTERM, &sa, NULL) != 0) {
        perror("otlite-bench: sigaction");
        return EX_OSERR;
    }
    buf_printf(&command, "otlite-bench %s", prefix);
    for (int i = 0; i < argc; i++)
        buf_printf(&command, "%s%s", i > 0 ? " " : "", argv[i]);
    o.command = buf_cstr(&command);
    status = c == NULL ? run_all(&o, &run) : run_one(c, &o, &run);
    buf_fini(&command);
    return interrupted && status == EX_OK ? 130 : status;
}

int reference_main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EX_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return EX_OK;
    }
    if (strcmp(argv[1], "all") == 0)
        return run_command(NULL, "reference ", argc - 1, argv + 1);
    for (int i = 0; i < REFERENCES; i++) {
        if (strcmp(argv[1], references[i]->name) == 0)
            return run_command(references[i], "reference ", argc - 1, argv + 1);
    }
    fprintf(stderr, "otlite-bench: no reference '%s'; see otlite-bench reference --help\n",
            argv[1]);
    return EX_USAGE;
}

int overload_main(int argc, char **argv)
{
    return run_command(&reference_overload, "", argc, argv);
}

int maintain_main(int argc, char **argv)
{
    return run_command(&reference_maintain, "", argc, argv);
}

int soak_main(int argc, char **argv)
{
    return run_command(&reference_soak, "", argc, argv);
}
