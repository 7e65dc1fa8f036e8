/* commands.c -- the list of subcommands, `otlite --help`, and the way to one of them. */
#include <stdio.h>
#include <string.h>

#include "otlite/cli.h"

#include "cli/options.h"
#include "cli/units.h"

const struct cli_command *const cli_commands[] = {
    &cli_serve,        &cli_token,  &cli_sql,     &cli_query,  &cli_stats,
    &cli_export,       &cli_import, &cli_check,   &cli_backup, &cli_compact,
    &cli_check_config, &cli_health, &cli_version, NULL,
};

static void help_print(FILE *out)
{
    fputs(
        "Usage: otlite COMMAND [FLAGS] [ARGUMENTS]\n\n"
        "Takes OpenTelemetry metrics over HTTP and has every point in SQLite before it answers.\n\n"
        "Commands:\n",
        out);
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        fprintf(out, "  %-13s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fputs("\n'otlite COMMAND --help' explains one. Start with: otlite serve --data ./data\n", out);
}

static const struct cli_command *command_find(const char *name)
{
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    }
    return NULL;
}

static int command_unknown(const char *name)
{
    struct nearest n = {0};

    for (size_t i = 0; cli_commands[i] != NULL; i++)
        nearest_offer(&n, name, cli_commands[i]->name);
    fprintf(stderr,
            "otlite: there is no command \"%.60s\"; the nearest one is %s\n"
            "Try 'otlite --help'.\n",
            name, n.best);
    return EX_USAGE;
}

static int dispatch(int argc, char **argv)
{
    const struct cli_command *command;
    const char *name;

    if (argc < 2) {
        help_print(stderr);
        return EX_USAGE;
    }
    name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
        (strcmp(name, "help") == 0 && argc == 2)) {
        help_print(stdout);
        return EX_OK;
    }
    if (strcmp(name, "--version") == 0)
        name = cli_version.name;
    if (strcmp(name, "help") == 0) { /* otlite help COMMAND */
        char help[] = "--help";
        char *help_argv[] = {argv[2], help, NULL};

        command = command_find(argv[2]);
        return command == NULL ? command_unknown(argv[2]) : command->run(2, help_argv);
    }
    command = command_find(name);
    if (command == NULL)
        return command_unknown(name);
    return command->run(argc - 1, argv + 1);
}

int cli_dispatch(int argc, char **argv)
{
    int status = dispatch(argc, argv);

    /* A full disk or a closed pipe shows up only here for what was still in the buffer. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (status == EX_OK) {
            fprintf(stderr, "otlite: the output could not be written whole\n");
            status = EX_IOERR;
        }
    }
    return status;
}
