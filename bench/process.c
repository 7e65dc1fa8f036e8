#include "process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

bool process_cpu_seconds(int64_t pid, double *out)
{
    char path[64], text[1024];
    uint64_t user, system;
    long a_second = sysconf(_SC_CLK_TCK);
    const char *rest;
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", pid);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    /* The second field is the name in parentheses and may hold anything; count from its end. */
    rest = strrchr(text, ')');
    if (rest == NULL || a_second <= 0)
        return false;
    /* state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime */
    if (sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64, &user,
               &system) != 2)
        return false;
    *out = (double)(user + system) / (double)a_second;
    return true;
}

double process_own_cpu_seconds(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_SELF, &u) != 0)
        return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

bool process_peak_bytes(int64_t pid, int64_t *out)
{
    char path[64], line[256];
    bool found = false;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%" PRId64 "/status", pid);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    while (!found && fgets(line, sizeof(line), f) != NULL) {
        int64_t kib;

        if (sscanf(line, "VmHWM: %" SCNd64 " kB", &kib) == 1) {
            *out = kib * 1024;
            found = true;
        }
    }
    fclose(f);
    return found;
}
