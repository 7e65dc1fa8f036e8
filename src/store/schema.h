/* schema.h -- telemetry.db's tables as a table of migrations. docs/schema.md explains each. */
#ifndef OTLITE_STORE_SCHEMA_H
#define OTLITE_STORE_SCHEMA_H

#include "otlite/db.h"

extern const struct db_migration telemetry_migrations[];
extern const int telemetry_migration_count;

#endif
