/* Where damage of parts goes. A damaged block is met again by each query that needs it: it is
 * counted each time, and told once. */
#include "part.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "otlite/clock.h"
#include "otlite/log.h"
#include "otlite/stats.h"

enum { TOLD_MAX = 4096, TOLD_SLOTS = 2 * TOLD_MAX };

/* Hashes of what was told: open addressing, 0 is empty. When there is no room any more, what is new
 * and what is not are told alike, one a minute. */
static struct {
    pthread_mutex_t mu;
    uint64_t slots[TOLD_SLOTS];
    size_t n;
} told = {.mu = PTHREAD_MUTEX_INITIALIZER};
static struct log_gate full;

static bool tell(uint64_t hash, uint64_t *held)
{
    size_t i = hash % TOLD_SLOTS;
    bool is_new, room;

    *held = 0;
    (void)pthread_mutex_lock(&told.mu);
    while (told.slots[i] != 0 && told.slots[i] != hash)
        i = (i + 1) % TOLD_SLOTS;
    is_new = told.slots[i] == 0;
    room = told.n < TOLD_MAX;
    if (is_new && room) {
        told.slots[i] = hash;
        told.n++;
    }
    (void)pthread_mutex_unlock(&told.mu);
    return is_new && (room || log_gate_open(&full, 60 * NS_PER_S, held));
}

void part_damage(int64_t block_id, int64_t chunk, const char *what)
{
    const int64_t where[] = {block_id, chunk};
    uint64_t hash = bytes_hash(bytes_str(what), bytes_hash(bytes_of(where, sizeof(where)), 1));
    char place[96];
    uint64_t held;

    STATS_ADD(damaged_chunks, 1);
    if (!tell(hash | 1, &held))
        return;
    if (chunk >= 0)
        (void)snprintf(place, sizeof(place), "part %" PRId64 " block %" PRId64 " chunk %" PRId64,
                       block_id >> PART_BLOCK_BITS, block_id & ((1 << PART_BLOCK_BITS) - 1), chunk);
    else
        (void)snprintf(place, sizeof(place), "part %" PRId64 " block %" PRId64,
                       block_id >> PART_BLOCK_BITS, block_id & ((1 << PART_BLOCK_BITS) - 1));
    LOG(LOG_ERROR, "store",
        "stored points are damaged and left out; keep the files, run otlite check, restore a "
        "backup",
        LOG_S("where", place), LOG_I("block", block_id), LOG_S("fault", what),
        LOG_I("held_back", held));
}
