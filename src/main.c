/* main.c -- nothing but the way to a subcommand. */
#include "cli/options.h"

int main(int argc, char **argv)
{
    return cli_dispatch(argc, argv);
}
