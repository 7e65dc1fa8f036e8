/* token.c -- otlite token create | list | revoke. Works beside a running daemon, which notices
 * within a second. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "otlite/cli.h"
#include "otlite/clock.h"
#include "otlite/state.h"

#include "cli/options.h"
#include "cli/units.h"

static void time_text(int64_t ns, char out[32])
{
    time_t seconds = (time_t)(ns / NS_PER_S);
    struct tm tm;

    if (ns == 0 || gmtime_r(&seconds, &tm) == NULL ||
        strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(out, 32, "-");
}

/* Only create makes a new state.db; the others would hide a mistyped directory by doing so. */
static enum otl_err state_open_existing(const char *data, struct state **out, struct otl_error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s/state.db", data);

    if (n < 0 || (size_t)n >= sizeof(path))
        return otl_fail(err, OTL_EBADREQUEST, "the path of the data directory is too long");
    if (access(path, F_OK) != 0)
        return otl_fail(err, OTL_ENOTFOUND,
                        "there is no %.256s; name the daemon's data directory with --data", path);
    return state_open(data, out, err);
}

static int create_fail(const struct otl_error *err, struct config *config)
{
    config_fini(config);
    return cli_error("token create", err);
}

static int token_create(int argc, char **argv)
{
    const char *project = "default", *scope = NULL, *note = "", *expires = NULL;
    const struct cli_flag flags[] = {
        {"project", "NAME", "the project its points belong to, made when new [default]", &project},
        {"scope", "SCOPES", "write, read, admin, or several with commas; required", &scope},
        {"note", "TEXT", "what it is for, shown by `otlite token list`", &note},
        {"expires", "DURATION", "end of its life from now, as 90d; without it never", &expires},
        {0},
    };
    const struct cli_spec spec = {
        .command = "token create",
        .synopsis = "--scope SCOPES [--project NAME] [--note TEXT] [--expires DURATION]",
        .about = "Make a token and print it on stdout, this once; only its hash is kept.\n"
                 "Senders give it as the header \"Authorization: Bearer TOKEN\".\n"
                 "write: send metrics; read: query them; admin: everything.",
        .common = CLI_DATA | CLI_CONFIG,
        .flags = flags,
    };
    struct otl_error err = {0};
    struct config config;
    struct cli_args args;
    struct state *st = NULL;
    char text[STATE_TOKEN_TEXT], scope_list[24], until[32];
    int64_t expires_ms = 0, expires_ns = 0, id = 0;
    unsigned scopes;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    scopes = scope == NULL ? 0 : scopes_parse(scope);
    if (scopes == 0) {
        config_fini(&config);
        if (scope == NULL)
            return cli_usage_error(spec.command, "--scope is missing; it is write, read or admin");
        return cli_usage_error(spec.command,
                               "--scope %.60s is not known; it is write, read, admin, or several "
                               "of them with commas",
                               scope);
    }
    if (expires != NULL) {
        int64_t now = clock_wall_ns();

        if (!duration_parse(expires, &expires_ms) || expires_ms == 0 ||
            expires_ms > (INT64_MAX - now) / NS_PER_MS) {
            config_fini(&config);
            return cli_usage_error(spec.command,
                                   "--expires %.60s is no duration; write digits and s, m, h or d, "
                                   "as 90d",
                                   expires);
        }
        expires_ns = now + expires_ms * NS_PER_MS;
    }
    if (state_open(config.data, &st, &err) != OTL_OK)
        return create_fail(&err, &config);
    if (state_token_create(st, project, scopes, note, expires_ns, text, &id, &err) != OTL_OK) {
        state_close(st);
        return create_fail(&err, &config);
    }
    state_close(st);

    scopes_text(scopes, scope_list);
    time_text(expires_ns, until);
    printf("%s\n", text);
    explicit_bzero(text, sizeof(text));
    /* A token nobody has seen is of no use: a reader that is gone is an error here and now. */
    if (fflush(stdout) != 0) {
        fprintf(stderr,
                "otlite token create: token %" PRId64 " was made but could not be printed; revoke "
                "it with `otlite token revoke %" PRId64 "` and make another\n",
                id, id);
        config_fini(&config);
        return EX_IOERR;
    }
    fprintf(stderr,
            "token %" PRId64 " for project %s, scope %s, expires %s; it is not shown again\n", id,
            project, scope_list, expires_ns == 0 ? "never" : until);
    config_fini(&config);
    return EX_OK;
}

static void list_print(void *arg, const struct token_info *t)
{
    char scopes[24], created[32], expires[32], revoked[32];
    size_t *n = arg;

    if ((*n)++ == 0)
        printf("%-4s  %-16s  %-16s  %-20s  %-20s  %-20s  %s\n", "id", "project", "scopes",
               "created", "expires", "revoked", "note");
    scopes_text(t->scopes, scopes);
    time_text(t->created_ns, created);
    time_text(t->expires_ns, expires);
    time_text(t->revoked_ns, revoked);
    printf("%-4" PRId64 "  %-16s  %-16s  %-20s  %-20s  %-20s  %s\n", t->id, t->project, scopes,
           created, expires, revoked, t->note);
}

static int token_list(int argc, char **argv)
{
    static const struct cli_spec spec = {
        .command = "token list",
        .synopsis = "",
        .about = "List all tokens, oldest first: what they may do, never what they are.",
        .common = CLI_DATA | CLI_CONFIG,
    };
    struct otl_error err = {0};
    struct config config;
    struct cli_args args;
    struct state *st = NULL;
    size_t n = 0;
    enum otl_err rc;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    rc = state_open_existing(config.data, &st, &err);
    if (rc == OTL_OK) {
        rc = state_token_list(st, list_print, &n, &err);
        state_close(st);
    }
    if (rc == OTL_OK && n == 0)
        fprintf(stderr, "no tokens yet; `otlite token create --scope write` makes one\n");
    config_fini(&config);
    return rc == OTL_OK ? EX_OK : cli_error(spec.command, &err);
}

static int token_revoke(int argc, char **argv)
{
    static const struct cli_spec spec = {
        .command = "token revoke",
        .synopsis = "ID",
        .about = "End a token by its number in `otlite token list`; a running daemon refuses it "
                 "within\na second. Points that came with it stay.",
        .common = CLI_DATA | CLI_CONFIG,
        .min_args = 1,
        .max_args = 1,
    };
    struct otl_error err = {0};
    struct config config;
    struct cli_args args;
    struct state *st = NULL;
    int64_t id;
    enum otl_err rc;
    int status = cli_parse(&spec, argc, argv, &config, &args);

    if (status != CLI_GO)
        return status;
    if (!int_parse(args.v[0], &id) || id <= 0) {
        config_fini(&config);
        return cli_usage_error(spec.command,
                               "\"%.60s\" is no token's number; `otlite token list` shows them",
                               args.v[0]);
    }
    rc = state_open_existing(config.data, &st, &err);
    if (rc == OTL_OK) {
        rc = state_token_revoke(st, id, &err);
        state_close(st);
    }
    config_fini(&config);
    if (rc != OTL_OK)
        return cli_error(spec.command, &err);
    fprintf(stderr, "token %" PRId64 " is revoked\n", id);
    return EX_OK;
}

static const struct cli_command subcommands[] = {
    {"create", "Make a token and print it once", token_create},
    {"list", "List tokens", token_list},
    {"revoke", "End a token", token_revoke},
};

enum { N_SUBCOMMANDS = sizeof(subcommands) / sizeof(subcommands[0]) };

static void token_help(FILE *out)
{
    fputs("Usage: otlite token create|list|revoke [FLAGS]\n\n"
          "Tokens say who may send and read. While there is none, only loopback is served.\n\n",
          out);
    for (size_t i = 0; i < N_SUBCOMMANDS; i++)
        fprintf(out, "  %-8s %s\n", subcommands[i].name, subcommands[i].summary);
    fputs("\n'otlite token create --help' explains one.\n", out);
}

static int token_run(int argc, char **argv)
{
    struct nearest n = {0};

    if (argc < 2) {
        token_help(stderr);
        return EX_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        token_help(stdout);
        return EX_OK;
    }
    for (size_t i = 0; i < N_SUBCOMMANDS; i++) {
        if (strcmp(argv[1], subcommands[i].name) == 0)
            return subcommands[i].run(argc - 1, argv + 1);
        nearest_offer(&n, argv[1], subcommands[i].name);
    }
    return cli_usage_error("token", "there is no \"%.60s\"; the nearest one is %s", argv[1],
                           n.best);
}

const struct cli_command cli_token = {"token", "Make, list and revoke tokens", token_run};
