#include "reads_load.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "otlite/clock.h"

enum { SETTLE_MS = 5000 };

void reads_sleep_ms(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS};

    while (nanosleep(&left, &left) != 0) {
    }
}

enum otl_err reads_load_start(enum reads_load kind, const char *url, unsigned rate, const char *dir,
                              struct child *out, struct otl_error *err)
{
    char program[4096], log[4200], text[32];
    const char *load[] = {program,
                          "load",
                          "--url",
                          url,
                          "--encoding",
                          kind == LOAD_INFLUX ? "influx" : "proto",
                          "--points-rate",
                          text,
                          "--connections",
                          "4",
                          "--duration",
                          "3600s",
                          NULL};
    const char *remote[] = {program, "remote-write", "--url", url, "--rate", text, NULL};
    enum otl_err rc = child_beside("otlite-bench", program, sizeof(program), err);

    snprintf(log, sizeof(log), "%s/load.log", dir);
    snprintf(text, sizeof(text), "%u", rate);
    (void)unlink(log); /* of an earlier run on kept points */
    if (rc == OTL_OK)
        rc = child_start(kind == LOAD_REMOTE_WRITE ? remote : load, log, false, out, err);
    if (rc == OTL_OK)
        reads_sleep_ms(SETTLE_MS);
    return rc;
}

enum otl_err reads_load_stop(struct child *load, const char *dir, double *out,
                             struct otl_error *err)
{
    char log[4200], line[256];
    bool found = false;
    int status;
    FILE *f;

    child_interrupt(load);
    status = child_wait(load);
    snprintf(log, sizeof(log), "%s/load.log", dir);
    f = fopen(log, "re");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        found = sscanf(line, "points/s %lf", out) == 1 || found;
    if (f != NULL)
        fclose(f);
    if (status == 0 && found)
        return OTL_OK;
    return otl_fail(err, OTL_EIO, "the load beside the queries ended with status %d; see %.256s",
                    status, log);
}
