#define PCRE2_CODE_UNIT_WIDTH 8
#include <event2/event.h>
#include <openssl/crypto.h>
#include <pcre2.h>
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
    char pcre2[64]; /* documented to need 24 */
    int status = cli_parse(&spec, argc, argv, NULL, &args);

    if (status != CLI_GO)
        return status;
    printf("otlite %s\n", OTLITE_VERSION);
    printf("SQLite %s\n", sqlite3_libversion());
    printf("libevent %s\n", event_get_version());
    printf("protobuf-c %s\n", protobuf_c_version());
    printf("zlib %s\n", zlibVersion());
    if (pcre2_config(PCRE2_CONFIG_VERSION, NULL) <= (int)sizeof(pcre2) &&
        pcre2_config(PCRE2_CONFIG_VERSION, pcre2) > 0)
        printf("PCRE2 %s\n", pcre2);
    printf("%s\n", OpenSSL_version(OPENSSL_VERSION));
    return EX_OK;
}

const struct cli_command cli_version = {"version", "Print the version", version_run};
