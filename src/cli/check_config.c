#include <stdio.h>

#include "otlite/cli.h"

#include "cli/options.h"

static int check_config_run(int argc, char **argv)
{
    const char *markdown = NULL, *sample = NULL;
    const struct cli_flag flags[] = {
        {"markdown", NULL, "print docs/configuration.md instead", &markdown},
        {"sample", NULL, "print a configuration file with every key instead", &sample},
        {0},
    };
    const struct cli_spec spec = {
        .command = "check-config",
        .synopsis = "[--config FILE] [--set KEY=VALUE]...",
        .about =
            "Read the settings as `otlite serve` would and print what comes of them, in the form\n"
            "of a configuration file. Exits with 78 and says why when something is wrong.",
        .common = CLI_CONFIG | CLI_DATA | CLI_LISTEN,
        .flags = flags,
    };
    struct config config;
    struct cli_args args;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    if (markdown != NULL)
        config_print_markdown(stdout);
    else if (sample != NULL)
        config_print_sample(stdout);
    else
        config_print(&config, stdout);
    config_fini(&config);
    return EX_OK;
}

const struct cli_command cli_check_config = {"check-config", "Print the effective settings",
                                             check_config_run};
