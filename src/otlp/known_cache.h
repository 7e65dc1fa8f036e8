/* known_cache.h -- the cache of known.h: a tree of entries, found by the raw bytes that they were
 * decoded from, each under the entry above it.
 *
 * Equality is decided on all the bytes; a hash only finds. Before that, nothing at all is searched:
 * an entry remembers which sibling came after it last time, and senders repeat themselves.
 *
 * Memory: three slots of a third of the bytes each. New entries go into the young slot; when it is
 * full it becomes the old one, and what was old is forgotten as a whole, unless it was used again
 * meanwhile, which copies it over. The third slot keeps what was forgotten until the batches that
 * borrow from it are done; as long as they are not, nothing new is taken in. */
#ifndef OTLITE_OTLP_KNOWN_CACHE_H
#define OTLITE_OTLP_KNOWN_CACHE_H

#include "otlite/known.h"

enum known_kind { KNOWN_RESOURCE, KNOWN_SCOPE, KNOWN_METRIC, KNOWN_SERIES };

/* A message without its children: what lies before and behind them. A metric has its own bytes
 * around those of its data message. A series is its attribute fields, in one piece. */
enum { KNOWN_PIECES = 4 };

struct known_key {
    enum known_kind kind;
    uint64_t parent; /* id of the entry above; of a resource, its project */
    struct bytes piece[KNOWN_PIECES];
};

struct known_entry;

/* Good as long as its entry is in the young or the old slot, which stamp tells. */
struct known_link {
    struct known_entry *e;
    uint32_t stamp;
};

/* The head of each kind of entry. An entry is one block of memory: its struct, the raw bytes, and
 * all that its texts point to. */
struct known_entry {
    uint64_t parent, id; /* an id is never given twice, and stays when the entry moves */
    uint64_t hash;
    const uint8_t *raw; /* the pieces, end to end */
    uint32_t piece_n[KNOWN_PIECES];
    struct known_link next;   /* the sibling that came after this one last time */
    struct known_link cursor; /* of its children, the one that was last */
    enum known_kind kind;
    uint32_t stamp; /* of its slot */
    size_t size;    /* of the block */
};

struct known_resource {
    struct known_entry e;
    struct batch_resource resource;
};

struct known_scope {
    struct known_entry e;
    struct batch_scope scope; /* but for resource, which is the batch's */
};

struct known_metric {
    struct known_entry e;
    struct batch_metric metric; /* but for scope */
};

struct known_series {
    struct known_entry e;
    uint32_t number;
    struct bytes attributes; /* canonical */
};

struct known_chunk;

/* A slot. Its address is what a batch holds. */
struct known_hold {
    struct known_chunk *chunks; /* in the order of being filled */
    struct known_chunk *at;     /* the one being filled; NULL before the first entry */
    struct known_entry **cells; /* open addressing, a power of two of them, at most half used */
    size_t n_cells, n_entries;
    size_t bytes;   /* in chunks and cells */
    unsigned holds; /* batches that may borrow from here */
};

enum { KNOWN_SLOTS = 3 };

struct known {
    struct known_hold slots[KNOWN_SLOTS];
    unsigned young; /* the old slot is the one before, in the ring; the third the one behind */
    uint32_t stamp; /* of the young slot; the old one's is one less */
    bool full;      /* an entry found no room: make some as soon as nobody is walking */
    size_t slot_bytes, chunk_bytes;
    uint64_t last_id;
    struct known_link cursor; /* of the resources */
    uint64_t (*hash)(struct bytes b, uint64_t seed);
    /* What an entry holds depends on these; the cache serves requests under the same only. */
    bool has_limits;
    uint32_t max_value_depth, max_name_bytes, max_attributes, max_attribute_bytes;
};

/* The child of parent (NULL: a resource) that is expected next, or NULL. */
static inline struct known_entry *known_expected(const struct known *k,
                                                 const struct known_entry *parent)
{
    const struct known_link *cursor = parent == NULL ? &k->cursor : &parent->cursor;
    const struct known_link *next;

    if (cursor->e == NULL || k->stamp - cursor->stamp > 1)
        return NULL;
    next = &cursor->e->next;
    return next->e == NULL || k->stamp - next->stamp > 1 ? NULL : next->e;
}

/* e came next below parent. */
static inline void known_remember(struct known *k, struct known_entry *parent,
                                  struct known_entry *e)
{
    struct known_link *cursor = parent == NULL ? &k->cursor : &parent->cursor;

    if (cursor->e != NULL && k->stamp - cursor->stamp <= 1)
        cursor->e->next = (struct known_link){e, e->stamp};
    *cursor = (struct known_link){e, e->stamp};
}

/* e of the old slot, in the young one; where it is when there is no room. */
struct known_entry *known_renew(struct known *k, struct known_entry *e);

/* e, from known_expected, is the one: as if it had been found. */
static inline struct known_entry *known_take(struct known *k, struct known_entry *parent,
                                             struct known_entry *e)
{
    if (e->stamp != k->stamp)
        e = known_renew(k, e);
    known_remember(k, parent, e);
    return e;
}

/* The entry of key below parent, or NULL. It stays where it is until known_make_room. */
struct known_entry *known_find(struct known *k, struct known_entry *parent,
                               const struct known_key *key);
/* The entry of key, made when there is none: a copy of content, which is the struct of key's kind
 * with the head left open. NULL: no room. */
struct known_entry *known_put(struct known *k, struct known_entry *parent,
                              const struct known_key *key, const struct known_entry *content);

/* When an entry found no room: forget the old ones, if no batch borrows them. Entries' addresses
 * are good from one call to the next. */
void known_make_room(struct known *k);
struct known_hold *known_take_hold(struct known *k);

/* Whether the cache serves requests under lim; take: an empty one is set to do so. */
bool known_serves(struct known *k, const struct decode_limits *lim, bool take);

#endif
