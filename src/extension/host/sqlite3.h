/* sqlite3.h -- what <sqlite3.h> is for the objects of otlite.so: calls go through the table of the
 * program that loaded it, so that they reach that program's SQLite, however it is linked. */
#ifndef OTLITE_EXTENSION_SQLITE3_H
#define OTLITE_EXTENSION_SQLITE3_H

#include <sqlite3ext.h>

SQLITE_EXTENSION_INIT3

#endif
