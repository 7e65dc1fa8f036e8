/* config_internal.h -- the option table as rows, for config.c and config_print.c. */
#ifndef OTLITE_CLI_CONFIG_INTERNAL_H
#define OTLITE_CLI_CONFIG_INTERNAL_H

#include <stddef.h>

#include "otlite/config.h"

enum config_kind {
    CONFIG_STRING,
    CONFIG_LIST,
    CONFIG_BOOL,
    CONFIG_INT,
    CONFIG_SIZE,
    CONFIG_DURATION,
    CONFIG_ENUM
};

struct config_row {
    enum config_kind kind;
    size_t offset; /* of the field in struct config */
    const char *key, *def, *min, *max, *help;
};

enum { CONFIG_ENV_NAME = 64 };

extern const struct config_row config_rows[];
extern const size_t config_row_count;

/* The field of a row; its type is that of the row's kind. */
void *config_field(struct config *c, const struct config_row *row);
const void *config_field_const(const struct config *c, const struct config_row *row);

/* OTLITE_HTTP_MAX_BODY for http.max_body. */
void config_env_name(const struct config_row *row, char out[CONFIG_ENV_NAME]);

#endif
