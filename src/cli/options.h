/* options.h -- what the subcommands share: flags, settings, exit statuses, messages.
 *
 * A subcommand describes itself in a struct cli_spec; cli_parse does the rest, --help included:
 *
 *     static const char *json;
 *     static const struct cli_flag flags[] = {{"json", NULL, "print JSON", &json}, {0}};
 *     static const struct cli_spec spec = {.command = "sql", .synopsis = "[QUERY]", ...};
 *     struct config config;
 *     struct cli_args args;
 *     int status = cli_parse(&spec, argc, argv, &config, &args);
 *     if (status != CLI_GO)
 *         return status;
 *     ... config.data, args.v[0] ...
 *     config_fini(&config);
 */
#ifndef OTLITE_CLI_OPTIONS_H
#define OTLITE_CLI_OPTIONS_H

#include <stdbool.h>
#include <sysexits.h>

#include "otlite/config.h"
#include "otlite/err.h"

/* What cli_parse returns when the subcommand is to go on; no exit status is negative. */
enum { CLI_GO = -1 };

/* Flags that several subcommands have. Each of them makes cli_parse fill a config. */
enum {
    CLI_CONFIG = 1, /* --config FILE, --set KEY=VALUE */
    CLI_DATA = 2,   /* --data DIR */
    CLI_LISTEN = 4  /* --listen ADDR:PORT */
};

/* A flag of the subcommand's own. *value is set to the argument, or to "" when the flag takes none;
 * it stays as it is when the flag is not given. The last one given wins. */
struct cli_flag {
    const char *name; /* without the dashes; NULL ends a list */
    const char *arg;  /* the argument's name for --help; NULL: takes none */
    const char *help;
    const char **value;
};

struct cli_spec {
    const char *command;          /* "sql", "token create" */
    const char *synopsis;         /* what comes after it: "[--json] [QUERY]" */
    const char *about;            /* for --help; ends without a newline */
    unsigned common;              /* CLI_CONFIG and so on */
    const struct cli_flag *flags; /* may be NULL */
    int min_args, max_args;       /* of what is no flag */
};

struct cli_args {
    char **v; /* part of argv */
    int n;
};

/* Read the flags, then the settings (flag over environment over file over default) and check them.
 * CLI_GO: go on; config (may be NULL when spec->common is 0) is filled and the caller's to fini.
 * Anything else is the exit status: EX_OK after --help, EX_USAGE, EX_CONFIG, EX_NOINPUT, already
 * explained on stderr; then config needs no fini. */
int cli_parse(const struct cli_spec *spec, int argc, char **argv, struct config *config,
              struct cli_args *out) OTL_MUSTCHECK;

/* The exit status for an error. */
int cli_status(enum otl_err code);
/* "otlite COMMAND: message" on stderr; returns the status. */
int cli_error(const char *command, const struct otl_error *err);
/* The same for a mistake in the command line, with a pointer to --help; returns EX_USAGE. */
int cli_usage_error(const char *command, const char *fmt, ...) OTL_PRINTF(2, 3);

/* argv of the whole program: find the subcommand and run it; flushes stdout, and EX_IOERR when that
 * fails. */
int cli_dispatch(int argc, char **argv);

/* ADDR:PORT with a numeric IPv4 address or localhost, or [ADDR]:PORT with IPv6. */
bool listen_valid(const char *listen);
/* A valid one in 127.0.0.0/8 or ::1, or localhost. False for what is not valid. */
bool listen_is_loopback(const char *listen);

#endif
