/* label_index.h -- which series have which labels, in memory, for all readers of a process.
 *
 * For each label (metric name, type, unit, scope name; service, resource attributes; point
 * attributes) and each of its values there is a posting list: the ascending numbers of what has it.
 * Labels of metrics list metrics, labels of resources list resources, and only point attributes
 * list series, so that what a thousand series share is stored once. A number is the position in the
 * order of ids.
 *
 * The index only grows: a view takes in the series that its snapshot has and the index lacks, and
 * reads nothing with a greater id than its snapshot's greatest. Series that retention deleted stay
 * (they have no points, so nobody gets wrong numbers) until so many went that the index is made
 * anew; views that are open keep the one they have. */
#ifndef OTLITE_STORE_LABEL_INDEX_H
#define OTLITE_STORE_LABEL_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/bytes.h"
#include "otlite/db.h"
#include "otlite/err.h"
#include "otlite/read.h"

struct label_index; /* thread-safe */
struct label_view;  /* of one read; one thread at a time */

/* Called now and then in loops; an error from it ends them (deadline, cancellation). fn may be
 * NULL. */
struct label_check {
    enum otl_err (*fn)(void *arg, struct otl_error *err);
    void *arg;
};

enum otl_err label_index_new(struct label_index **out, struct otl_error *err) OTL_MUSTCHECK;
/* No view may be open. Takes NULL. */
void label_index_free(struct label_index *ix);

/* A view of the snapshot that the caller's read transaction on db has. Takes in the series that are
 * missing; when another thread does so already, waits for it. */
enum otl_err label_index_view(struct label_index *ix, struct db *db,
                              const struct label_check *check, struct label_view **out,
                              struct otl_error *err) OTL_MUSTCHECK;
/* Takes NULL. */
void label_view_free(struct label_view *v);

/* Take in the series that the caller's snapshot has and the index lacks, without a view. */
enum otl_err label_index_refresh(struct label_index *ix, struct db *db,
                                 const struct label_check *check,
                                 struct otl_error *err) OTL_MUSTCHECK;

/* Count at the next view how many series were deleted, which else happens every five minutes. */
void label_index_recount(struct label_index *ix);

/* read_select, read_series_info and read_values (read.h) on a view. */
enum otl_err label_view_select(struct label_view *v, int64_t project_id, const struct matcher *m,
                               size_t n, const struct label_check *check, struct series_list *out,
                               struct otl_error *err) OTL_MUSTCHECK;
/* What out borrows is there until the view is freed. */
bool label_view_series(struct label_view *v, int64_t series_id, struct series_info *out);
enum otl_err
label_view_values(struct label_view *v, int64_t project_id, const struct series_list *l,
                  enum match_what what, struct bytes key, const struct label_check *check,
                  enum otl_err (*emit)(void *arg, struct bytes value, struct otl_error *err),
                  void *arg, struct otl_error *err) OTL_MUSTCHECK;

/* read_metrics and the like (read.h). */
enum otl_err label_view_metrics(struct label_view *v, int64_t after,
                                const struct label_check *check,
                                enum otl_err (*emit)(void *arg, const struct metric_info *m,
                                                     struct otl_error *err),
                                void *arg, struct otl_error *err) OTL_MUSTCHECK;
enum otl_err label_view_resources(struct label_view *v, int64_t project_id,
                                  const struct label_check *check,
                                  enum otl_err (*emit)(void *arg, const struct resource_info *info,
                                                       struct otl_error *err),
                                  void *arg, struct otl_error *err) OTL_MUSTCHECK;
enum otl_err label_view_resource_series(struct label_view *v, int64_t resource_id,
                                        struct series_list *out,
                                        struct otl_error *err) OTL_MUSTCHECK;
enum otl_err label_view_keys(struct label_view *v, enum match_what what,
                             const struct label_check *check,
                             enum otl_err (*emit)(void *arg, struct bytes key,
                                                  struct otl_error *err),
                             void *arg, struct otl_error *err) OTL_MUSTCHECK;

/* Bytes of memory that the index holds, and its series; for stats and measurements. */
size_t label_index_bytes(struct label_index *ix);
size_t label_index_series(struct label_index *ix);

#endif
