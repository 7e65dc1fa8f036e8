/* cli.h -- the subcommands. Each has a file of its own in src/cli. */
#ifndef OTLITE_CLI_H
#define OTLITE_CLI_H

struct cli_command {
    const char *name;
    const char *summary; /* one line for `otlite --help` */
    /* argv[0] is the subcommand's name. Returns an exit status (sysexits.h). */
    int (*run)(int argc, char **argv);
};

extern const struct cli_command cli_serve, cli_token, cli_backup, cli_sql, cli_query, cli_stats,
    cli_export, cli_import, cli_check, cli_compact, cli_check_config, cli_health, cli_version;

/* NULL-terminated, in the order of --help. */
extern const struct cli_command *const cli_commands[];

#endif
