/* scan_ahead.c -- a scan by two threads: the helper reads and decodes series, this one goes on with
 * them. Between them lies a ring of slots.
 *
 * While the helper runs, the connection and all that is opened on it are the helper's. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "read_helper.h"
#include "read_internal.h"

enum {
    /* Waking a thread takes as long as decoding a series, and may bring it to the processor of who
     * woke it, where the two take turns. So who waits looks again for some microseconds first, and
     * then waits for several. */
    LOOKS = 64,
    AT_ONCE = 2
};

struct scan_ring {
    const struct number_sink *sink;
    struct scan *scan;
    pthread_mutex_t mu; /* held for changes of what is from here to stop */
    pthread_cond_t changed;
    atomic_size_t made,
        taken;        /* made - taken are in the ring, the next one at taken % NUMBER_SLOTS */
    atomic_bool done; /* all are made */
    atomic_bool stop; /* no more are wanted */
    int64_t ids[NUMBER_SLOTS]; /* those between taken and made are the taker's, the others the
                                  maker's */
    enum otl_err rc;
    struct otl_error err; /* the maker's, read when it has ended */
};

struct scan_ring *scan_ring_new(const struct number_sink *sink)
{
    struct scan_ring *g = calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->sink = sink;
    if (pthread_mutex_init(&g->mu, NULL) != 0)
        goto free_it;
    if (pthread_cond_init(&g->changed, NULL) != 0)
        goto free_mutex;
    return g;
free_mutex:
    (void)pthread_mutex_destroy(&g->mu);
free_it:
    free(g);
    return NULL;
}

void scan_ring_free(struct scan_ring *g)
{
    if (g == NULL)
        return;
    (void)pthread_cond_destroy(&g->changed);
    (void)pthread_mutex_destroy(&g->mu);
    free(g);
}

static size_t in_ring(const struct scan_ring *g)
{
    return atomic_load(&g->made) - atomic_load(&g->taken);
}

/* ---- the maker: on the helper's thread ---- */

enum otl_err scan_ring_slot(struct scan_ring *g, unsigned *out, struct otl_error *err)
{
    for (int i = 0; i < LOOKS && in_ring(g) == NUMBER_SLOTS; i++)
        (void)sched_yield();
    if (in_ring(g) == NUMBER_SLOTS) {
        (void)pthread_mutex_lock(&g->mu);
        while (in_ring(g) > NUMBER_SLOTS - AT_ONCE && !atomic_load(&g->stop))
            (void)pthread_cond_wait(&g->changed, &g->mu);
        (void)pthread_mutex_unlock(&g->mu);
    }
    if (atomic_load(&g->stop))
        return otl_fail(err, OTL_ECANCELLED, "the query has ended");
    *out = (unsigned)(atomic_load(&g->made) % NUMBER_SLOTS);
    return OTL_OK;
}

void scan_ring_put(struct scan_ring *g, int64_t series_id)
{
    g->ids[atomic_load(&g->made) % NUMBER_SLOTS] = series_id;
    (void)pthread_mutex_lock(&g->mu);
    atomic_fetch_add(&g->made, 1);
    if (in_ring(g) == AT_ONCE)
        (void)pthread_cond_signal(&g->changed);
    (void)pthread_mutex_unlock(&g->mu);
}

static void make(void *arg)
{
    struct scan_ring *g = arg;

    g->rc = scan_run(g->scan, &g->err);
    (void)pthread_mutex_lock(&g->mu);
    atomic_store(&g->done, true);
    (void)pthread_cond_signal(&g->changed);
    (void)pthread_mutex_unlock(&g->mu);
}

/* ---- the taker ---- */

/* False: there is nothing more. */
static bool wait_for_one(struct scan_ring *g)
{
    for (int i = 0; i < LOOKS && in_ring(g) == 0 && !atomic_load(&g->done); i++)
        (void)sched_yield();
    if (in_ring(g) > 0)
        return true;
    (void)pthread_mutex_lock(&g->mu);
    while (in_ring(g) < AT_ONCE && !atomic_load(&g->done))
        (void)pthread_cond_wait(&g->changed, &g->mu);
    (void)pthread_mutex_unlock(&g->mu);
    return in_ring(g) > 0;
}

/* The first is done with; the last one to be if stop. */
static void give_back(struct scan_ring *g, bool stop)
{
    (void)pthread_mutex_lock(&g->mu);
    atomic_fetch_add(&g->taken, 1);
    atomic_store(&g->stop, stop);
    if (stop || in_ring(g) == NUMBER_SLOTS - AT_ONCE)
        (void)pthread_cond_signal(&g->changed);
    (void)pthread_mutex_unlock(&g->mu);
}

bool scan_ring_run(struct scan_ring *g, struct scan *s, enum otl_err *rc, struct otl_error *err)
{
    struct read_helper *helper = s->r->session->shared->helper;

    g->scan = s;
    s->r->read_ahead = true;
    if (!read_helper_start(helper, make, g)) {
        s->r->read_ahead = false;
        return false;
    }
    *rc = OTL_OK;
    while (*rc == OTL_OK && wait_for_one(g)) {
        size_t at = atomic_load(&g->taken) % NUMBER_SLOTS;

        *rc = g->sink->series(g->sink->arg, (unsigned)at, g->ids[at], err);
        give_back(g, *rc != OTL_OK);
    }
    read_helper_wait(helper);
    s->r->read_ahead = false;
    if (*rc == OTL_OK && g->rc != OTL_OK) {
        *rc = g->rc;
        if (err != NULL)
            *err = g->err;
    }
    return true;
}
