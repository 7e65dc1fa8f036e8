#include "cli/options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/units.h"

enum { MAX_FLAGS = 24 };

/* The common flags; key is the setting that the flag is short for. */
static const struct {
    unsigned bit;
    const char *name, *arg, *key, *help;
} common_flags[] = {
    {CLI_DATA, "data", "DIR", "data", "directory of telemetry.db and state.db"},
    {CLI_LISTEN, "listen", "ADDR:PORT", "listen", "addresses to serve, comma-separated"},
    {CLI_CONFIG, "config", "FILE", NULL, "read settings from FILE"},
    {CLI_CONFIG, "set", "KEY=VALUE", NULL, "change one setting; may be repeated"},
};

enum { N_COMMON = sizeof(common_flags) / sizeof(common_flags[0]) };

/* What getopt_long gives back: HELP, a common flag's index, or OWN + an own flag's index. All lie
 * outside the range of characters. */
enum { FLAG_HELP = 1000, FLAG_COMMON = 1001, FLAG_OWN = 1100 };

/* A setting asked for by a flag, in the order given. Borrows argv. */
struct setting {
    const char *key; /* NULL: text is KEY=VALUE */
    const char *text;
    const char *where; /* "--set" and so on */
};

struct flags_read {
    struct setting *settings;
    size_t n_settings;
    const char *file;
    bool help;
};

int cli_status(enum otl_err code)
{
    switch (code) {
    case OTL_OK:
        return EX_OK;
    case OTL_EBADREQUEST:
    case OTL_EMETHOD:
        return EX_USAGE;
    case OTL_EBADDATA:
    case OTL_ETOOBIG:
    case OTL_EMEDIATYPE:
    case OTL_EEXPECT:
    case OTL_EHEAD:
    case OTL_ETE:
    case OTL_ECORRUPT:
        return EX_DATAERR;
    case OTL_ENOTFOUND:
        return EX_NOINPUT;
    case OTL_EAUTH:
    case OTL_EFORBIDDEN:
        return EX_NOPERM;
    case OTL_ERATE:
    case OTL_EBUSY:
    case OTL_ELATE:
    case OTL_ECANCELLED:
    case OTL_ELOCKED:
    case OTL_ESTOPPING:
        return EX_TEMPFAIL;
    case OTL_EFULL:
    case OTL_EIO:
        return EX_IOERR;
    case OTL_ENOMEM:
    case OTL_ESYSTEM:
        return EX_OSERR;
    case OTL_EDB:
        return EX_UNAVAILABLE;
    case OTL_ECONFIG:
        return EX_CONFIG;
    case OTL_EINTERNAL:
    case OTL_ERR_COUNT:
        break;
    }
    return EX_SOFTWARE;
}

int cli_error(const char *command, const struct otl_error *err)
{
    fprintf(stderr, "otlite %s: %s\n", command, err->msg);
    return cli_status(err->code);
}

int cli_usage_error(const char *command, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "otlite %s: ", command);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\nTry 'otlite %s --help'.\n", command);
    return EX_USAGE;
}

static void help_line(const char *name, const char *arg, const char *help)
{
    char left[64];

    snprintf(left, sizeof(left), "--%s%s%s", name, arg == NULL ? "" : " ", arg == NULL ? "" : arg);
    if (strlen(left) > 22)
        printf("  %s\n  %-22s  %s\n", left, "", help);
    else
        printf("  %-22s  %s\n", left, help);
}

static void help_print(const struct cli_spec *spec)
{
    printf("Usage: otlite %s%s%s\n\n%s\n\nFlags:\n", spec->command,
           spec->synopsis[0] == '\0' ? "" : " ", spec->synopsis, spec->about);
    for (const struct cli_flag *f = spec->flags; f != NULL && f->name != NULL; f++)
        help_line(f->name, f->arg, f->help);
    for (size_t i = 0; i < N_COMMON; i++) {
        if ((spec->common & common_flags[i].bit) != 0)
            help_line(common_flags[i].name, common_flags[i].arg, common_flags[i].help);
    }
    help_line("help", NULL, "print this");
    if (spec->common != 0)
        putchar('\n');
    /* The whole list only where most settings matter. */
    if ((spec->common & CLI_LISTEN) != 0)
        config_print_help(stdout);
    else if (spec->common != 0)
        puts("Settings also come from the environment (OTLITE_DATA and so on); 'otlite "
             "check-config\n"
             "--help' lists them.");
}

static size_t own_count(const struct cli_spec *spec)
{
    size_t n = 0;

    while (spec->flags != NULL && spec->flags[n].name != NULL)
        n++;
    return n;
}

static int unknown_flag(const struct cli_spec *spec, const char *given, const struct option *known)
{
    struct nearest n = {0};
    size_t len;
    char word[64];

    if (strncmp(given, "--", 2) != 0)
        return cli_usage_error(spec->command, "there is no flag %.40s", given);
    len = strcspn(given + 2, "=");
    snprintf(word, sizeof(word), "%.*s", len > 60 ? 60 : (int)len, given + 2);
    for (; known->name != NULL; known++)
        nearest_offer(&n, word, known->name);
    return cli_usage_error(spec->command, "there is no flag --%s; the nearest one is --%s", word,
                           n.best);
}

/* Reads argv into out; CLI_GO or an exit status. */
static int flags_read(const struct cli_spec *spec, int argc, char **argv, struct flags_read *out)
{
    struct option longs[MAX_FLAGS + 1] = {{0}};
    size_t n = 0, n_own = own_count(spec);
    int c;

    if (n_own + N_COMMON + 1 > MAX_FLAGS) {
        fprintf(stderr, "otlite %s: too many flags in its table\n", spec->command);
        return EX_SOFTWARE;
    }
    for (size_t i = 0; i < n_own; i++) {
        const struct cli_flag *f = &spec->flags[i];
        int arg = f->arg == NULL ? no_argument : required_argument;

        longs[n++] = (struct option){f->name, arg, NULL, FLAG_OWN + (int)i};
    }
    for (size_t i = 0; i < N_COMMON; i++) {
        if ((spec->common & common_flags[i].bit) != 0)
            longs[n++] = (struct option){common_flags[i].name, required_argument, NULL,
                                         FLAG_COMMON + (int)i};
    }
    longs[n] = (struct option){"help", no_argument, NULL, FLAG_HELP};

    optind = 0; /* 0, not 1, makes glibc start anew for another argv */
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
        if (c == 'h' || c == FLAG_HELP) {
            out->help = true;
            return CLI_GO;
        }
        if (c == ':')
            return cli_usage_error(spec->command, "%.60s needs an argument", argv[optind - 1]);
        if (c == '?') {
            char letter[3] = {'-', (char)optopt, '\0'};

            /* optopt is a letter, or 0, or the value of a long flag that takes no argument. */
            if (optopt >= FLAG_HELP)
                return cli_usage_error(spec->command, "%.60s takes no argument", argv[optind - 1]);
            return unknown_flag(spec, optopt == 0 ? argv[optind - 1] : letter, longs);
        }
        if (c >= FLAG_OWN) {
            *spec->flags[c - FLAG_OWN].value = optarg == NULL ? "" : optarg;
        } else if (strcmp(common_flags[c - FLAG_COMMON].name, "config") == 0) {
            out->file = optarg;
        } else {
            static const char *const where[N_COMMON] = {"--data", "--listen", "--config", "--set"};

            out->settings[out->n_settings++] =
                (struct setting){common_flags[c - FLAG_COMMON].key, optarg, where[c - FLAG_COMMON]};
        }
    }
    return CLI_GO;
}

static enum otl_err setting_apply(struct config *c, const struct setting *s, struct otl_error *err)
{
    const char *equals;
    char key[96];

    if (s->key != NULL)
        return config_set(c, s->key, s->text, s->where, err);
    equals = strchr(s->text, '=');
    if (equals == NULL)
        return otl_fail(err, OTL_EBADREQUEST, "--set %.80s: write it as --set KEY=VALUE", s->text);
    snprintf(key, sizeof(key), "%.*s", (int)(equals - s->text > 90 ? 90 : equals - s->text),
             s->text);
    return config_set(c, key, equals + 1, s->where, err);
}

static enum otl_err settings_read(struct config *c, const struct flags_read *flags,
                                  struct otl_error *err)
{
    enum otl_err rc = OTL_OK;

    if (flags->file != NULL)
        rc = config_read_file(c, flags->file, err);
    if (rc == OTL_OK)
        rc = config_read_environment(c, err);
    for (size_t i = 0; rc == OTL_OK && i < flags->n_settings; i++)
        rc = setting_apply(c, &flags->settings[i], err);
    if (rc == OTL_OK)
        rc = config_check(c, err);
    return rc;
}

static int args_check(const struct cli_spec *spec, const struct cli_args *args)
{
    if (args->n < spec->min_args)
        return cli_usage_error(spec->command, "an argument is missing: otlite %s %s", spec->command,
                               spec->synopsis);
    if (args->n > spec->max_args)
        return cli_usage_error(spec->command, "\"%.60s\" is one argument too many",
                               args->v[spec->max_args]);
    return CLI_GO;
}

int cli_parse(const struct cli_spec *spec, int argc, char **argv, struct config *config,
              struct cli_args *out)
{
    struct flags_read flags = {0};
    struct otl_error err = {0};
    int status;

    /* Each flag takes a place in argv, so this is room enough. */
    flags.settings = calloc((size_t)argc + 1, sizeof(*flags.settings));
    if (flags.settings == NULL) {
        fprintf(stderr, "otlite %s: out of memory\n", spec->command);
        return EX_OSERR;
    }
    status = flags_read(spec, argc, argv, &flags);
    if (status == CLI_GO && flags.help) {
        help_print(spec);
        status = EX_OK;
    }
    if (status == CLI_GO) {
        out->v = argv + optind;
        out->n = argc - optind;
        status = args_check(spec, out);
    }
    if (status == CLI_GO && spec->common != 0) {
        enum otl_err rc = config_init(config, &err);

        if (rc == OTL_OK) {
            rc = settings_read(config, &flags, &err);
            if (rc != OTL_OK)
                config_fini(config);
        }
        if (rc != OTL_OK)
            status = cli_error(spec->command, &err);
    }
    free(flags.settings);
    return status;
}
