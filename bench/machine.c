#include "machine.h"

#include <event2/event.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "otlite/clock.h"

enum { VALUE_SIZE = 160 };

struct facts {
    char processor[VALUE_SIZE], cores[32], memory[32], kernel[VALUE_SIZE], data[VALUE_SIZE];
    char date[40];
};

/* The rest of the first line of a file that starts with key, blanks and a colon; "unknown". */
static void read_field(const char *path, const char *key, char *out, size_t n)
{
    char line[1024];
    size_t key_n = strlen(key);
    FILE *f = fopen(path, "re");

    snprintf(out, n, "unknown");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, key, key_n) != 0 || colon == NULL)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(out, n, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    if (f != NULL)
        fclose(f);
}

/* Does the mount point hold the path? */
static bool holds(const char *mount, const char *path)
{
    size_t n = strlen(mount);

    if (strncmp(mount, path, n) != 0)
        return false;
    return n == 1 || path[n] == '/' || path[n] == '\0';
}

/* Type of the file system that holds the path: of the last mount with the longest mount point. */
static void file_system_of(const char *path, char *out, size_t n)
{
    char line[4096], mount[1024], type[128];
    char *real = realpath(path, NULL);
    size_t longest = 0;
    FILE *f = fopen("/proc/self/mounts", "re");

    snprintf(out, n, "unknown");
    while (real != NULL && f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "%*s %1023s %127s", mount, type) != 2)
            continue;
        if (strlen(mount) >= longest && holds(mount, real)) {
            longest = strlen(mount);
            snprintf(out, n, "%s", type);
        }
    }
    if (f != NULL)
        fclose(f);
    free(real);
}

static void gather(struct facts *f)
{
    const char *tmp = getenv("TMPDIR");
    char text[64];
    struct utsname u;
    struct tm utc;
    time_t now = (time_t)(clock_wall_ns() / NS_PER_S);
    long long kib;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    memset(f, 0, sizeof(*f));
    read_field("/proc/cpuinfo", "model name", f->processor, sizeof(f->processor));
    snprintf(f->cores, sizeof(f->cores), "%ld", cores);
    read_field("/proc/meminfo", "MemTotal", text, sizeof(text));
    if (sscanf(text, "%lld kB", &kib) == 1)
        snprintf(f->memory, sizeof(f->memory), "%.1f GiB", (double)kib / 1048576);
    else
        snprintf(f->memory, sizeof(f->memory), "unknown");
    if (uname(&u) == 0)
        snprintf(f->kernel, sizeof(f->kernel), "%.32s %.64s %.32s", u.sysname, u.release,
                 u.machine);
    else
        snprintf(f->kernel, sizeof(f->kernel), "unknown");
    file_system_of(tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp", f->data, sizeof(f->data));
    if (gmtime_r(&now, &utc) == NULL ||
        strftime(f->date, sizeof(f->date), "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        snprintf(f->date, sizeof(f->date), "unknown");
}

struct fact {
    const char *key, *title, *value;
};

enum { FACTS = 11 };

static void list(const struct facts *f, struct fact *out)
{
    const struct fact all[FACTS] = {
        {"processor", "processor", f->processor},
        {"cores", "cores", f->cores},
        {"memory", "memory", f->memory},
        {"kernel", "kernel", f->kernel},
        {"file_system", "file system of the data", f->data},
        {"otlite", "otlite", OTLITE_VERSION},
        {"sqlite", "SQLite", sqlite3_libversion()},
        {"libevent", "libevent", event_get_version()},
        {"zlib", "zlib", zlibVersion()},
#ifdef __clang__
        {"compiler", "compiler", "clang " __clang_version__},
#else
        {"compiler", "compiler", "gcc " __VERSION__},
#endif
        {"date", "date", f->date},
    };

    memcpy(out, all, sizeof(all));
}

void machine_json(struct buf *out)
{
    struct facts f;
    struct fact facts[FACTS];

    gather(&f);
    list(&f, facts);
    for (int i = 0; i < FACTS; i++) {
        buf_printf(out, "%s\"%s\":", i == 0 ? "{" : ",", facts[i].key);
        buf_add_json_string(out, bytes_str(facts[i].value));
    }
    buf_add_char(out, '}');
}

void machine_markdown(struct buf *out)
{
    struct facts f;
    struct fact facts[FACTS];

    gather(&f);
    list(&f, facts);
    buf_add_str(out, "| what | on this machine |\n|---|---|\n");
    for (int i = 0; i < FACTS; i++)
        buf_printf(out, "| %s | %s |\n", facts[i].title, facts[i].value);
}
