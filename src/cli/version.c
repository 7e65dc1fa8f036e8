#include <event2/event.h>
#include <openssl/crypto.h>
#include <protobuf-c/protobuf-c.h>
#include <sqlite3.h>
#include <stdio.h>
#include <zlib.h>

#include "otlite/cli.h"

#include "cli/options.h"

static int version_run(int argc, char **argv)
{
    static const struct cli_spec spec = {
        .command = "version",
        .synopsis = "",
        .about = "Print the version of otlite and of the libraries it runs with.",
    };
    struct cli_args args;
    int status = cli_parse(&spec, argc, argv, NULL, &args);

    if (status != CLI_GO)
        return status;
    printf("otlite %s\n", OTLITE_VERSION);
    printf("SQLite %s\n", sqlite3_libversion());
    printf("libevent %s\n", event_get_version());
    printf("protobuf-c %s\n", protobuf_c_version());
    printf("zlib %s\n", zlibVersion());
    printf("%s\n", OpenSSL_version(OPENSSL_VERSION));
    return EX_OK;
}

const struct cli_command cli_version = {"version", "Print the version", version_run};
