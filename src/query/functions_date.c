/* functions_date.c -- parts of a date, UTC, of samples that are seconds since 1970, or of the time
 * of the step.
 *
 * The calendar is Gregorian throughout, and its years wrap where 64 bits of seconds end, as they do
 * in Prometheus: days are counted from the start of the year -292277022399, the first of a period
 * of 400 years, on a Monday. */
#include <math.h>
#include <stdlib.h>

#include "functions_internal.h"

#define EPOCH_FROM_ORIGIN UINT64_C(9223372028715321600) /* seconds */
#define ORIGIN_YEAR       INT64_C(-292277022399)
enum { DAY_S = 86400, PERIOD_DAYS = 146097, CENTURY_DAYS = 36524, FOUR_YEARS_DAYS = 1461 };

struct date {
    int64_t year;
    unsigned month, day;  /* from 1 */
    unsigned day_of_year; /* from 1 */
    unsigned weekday;     /* Sunday is 0 */
    unsigned hour, minute, days_in_month;
};

static struct date date_of(int64_t seconds)
{
    static const unsigned days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const uint64_t since = (uint64_t)seconds + EPOCH_FROM_ORIGIN;
    uint64_t left = since / DAY_S, n;
    struct date d = {.year = ORIGIN_YEAR, .month = 1};
    bool leap;

    d.hour = (unsigned)(since % DAY_S / 3600);
    d.minute = (unsigned)(since % 3600 / 60);
    d.weekday = (unsigned)((left + 1) % 7);
    d.year += (int64_t)(400 * (left / PERIOD_DAYS));
    left %= PERIOD_DAYS;
    /* The last century of a period and the last year of four have a day more. */
    n = left / CENTURY_DAYS < 3 ? left / CENTURY_DAYS : 3;
    d.year += (int64_t)(100 * n);
    left -= n * CENTURY_DAYS;
    d.year += (int64_t)(4 * (left / FOUR_YEARS_DAYS));
    left %= FOUR_YEARS_DAYS;
    n = left / 365 < 3 ? left / 365 : 3;
    d.year += (int64_t)n;
    left -= n * 365;
    leap = d.year % 4 == 0 && (d.year % 100 != 0 || d.year % 400 == 0);
    d.day_of_year = (unsigned)left + 1;
    for (;; d.month++) {
        d.days_in_month = days[d.month - 1] + (d.month == 2 && leap ? 1 : 0);
        if (left < d.days_in_month)
            break;
        left -= d.days_in_month;
    }
    d.day = (unsigned)left + 1;
    return d;
}

/* What is no 64-bit number becomes the least of them. */
static int64_t seconds_of(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}

#define PART(name, part)                                      \
    static double part_##name(struct date d)                  \
    {                                                         \
        return (double)(part);                                \
    }                                                         \
    MAP_FUNCTION(fn_##name)                                   \
    {                                                         \
        (void)c;                                              \
        (void)err;                                            \
        if (in->h == NULL)                                    \
            out->v = part_##name(date_of(seconds_of(in->v))); \
        return OTL_OK;                                        \
    }

PART(day_of_month, d.day)
PART(day_of_week, d.weekday)
PART(day_of_year, d.day_of_year)
PART(days_in_month, d.days_in_month)
PART(hour, d.hour)
PART(minute, d.minute)
PART(month, d.month)
PART(year, d.year)

MATRIX_FUNCTION(fn_date_now)
{
    struct prom_row *row = eval_add_row(e, out, (struct labels){0}, err);
    const struct function_call c = {.eval = e, .expr = call};
    enum otl_err rc = OTL_OK;

    (void)args;
    (void)n;
    if (row == NULL)
        return err->code;
    for (size_t i = 0; i < e->steps && rc == OTL_OK; i++) {
        /* Whole seconds, towards zero. */
        const struct sample now = {.v = (double)(eval_time(e, i) / 1000)};
        struct sample made = {.v = prom_stale()};

        rc = call->u.call.function->map(&c, &now, &made, err);
        row->v[i] = made.v;
    }
    return rc;
}
