#include "otlite/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum otl_err otl_fail(struct otl_error *err, enum otl_err code, const char *fmt, ...)
{
    va_list ap;

    if (err == NULL)
        return code;
    err->code = code;
    err->field[0] = '\0';
    va_start(ap, fmt);
    (void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    return code;
}

enum otl_err otl_wrap(struct otl_error *err, const char *fmt, ...)
{
    char inner[sizeof(err->msg)];
    va_list ap;
    int n;

    memcpy(inner, err->msg, sizeof(inner));
    va_start(ap, fmt);
    n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n + 3 < sizeof(err->msg)) {
        size_t room = sizeof(err->msg) - (size_t)n - 3, have = strlen(inner);

        memcpy(err->msg + n, ": ", 2);
        memcpy(err->msg + n + 2, inner, have < room ? have : room);
        err->msg[(size_t)n + 2 + (have < room ? have : room)] = '\0';
    }
    return err->code;
}

const char *otl_err_text(enum otl_err code)
{
    static const char *const text[] = {
#define X(name, words, http) words,
        OTL_ERRORS(X)
#undef X
    };

    return (unsigned)code < OTL_ERR_COUNT ? text[code] : "unknown error";
}

int otl_err_http(enum otl_err code)
{
    static const int status[] = {
#define X(name, words, http) http,
        OTL_ERRORS(X)
#undef X
    };

    return (unsigned)code < OTL_ERR_COUNT ? status[code] : 500;
}
