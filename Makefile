# otlite: make run and make test are all the set-up a person needs.
#
#   make            build build/otlite and the SQLite extension build/otlite.so
#   make run        install what is missing, build, serve on 127.0.0.1:4318 with data in ./data
#   make test       install what the tests need, build, run them all
#   make test SAN=address,undefined | SAN=thread
#   make bench      measure what docs/performance.md shows, and put it there: ten minutes
#   make bench-full the same with the references' published times: hours
#   make soak       half the peak for half an hour: are memory, log and head flat?
#   make torture   storage against a naive model, 100,000 random sequences: an hour
#   make fuzz       feed each decoder mutated requests for FUZZ_SECONDS (needs clang)
#   make install PREFIX=/usr/local DESTDIR=

CC      ?= cc
PREFIX  ?= /usr/local
DESTDIR ?=
SAN     ?=
WERROR  ?=

# The inner makes compile on all cores; the outer one stays in order, since apt-get has one lock.
JOBS := -j$(shell nproc)

comma := ,
B := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))

VERSION := 0.1.0

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wcast-align -Wcast-qual \
	-Wwrite-strings -Wformat=2 -Wundef -Wvla -Wimplicit-fallthrough -Wdouble-promotion \
	-Wnull-dereference
ifeq ($(findstring clang,$(CC)),)
WARNINGS += -Wlogical-op -Wduplicated-cond -Wduplicated-branches
endif

STD      := -std=c11 -D_GNU_SOURCE
INCLUDES := -Iinclude -Isrc -I$(B)/gen
HARDEN   := -fstack-protector-strong -fstack-clash-protection -fPIE $(if $(SAN),,-D_FORTIFY_SOURCE=2)
OPT      := $(if $(SAN),-O1 -fno-omit-frame-pointer,-O2)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all)
CFLAGS   ?=
ALLFLAGS := $(STD) $(OPT) -g $(HARDEN) $(SANFLAGS) $(INCLUDES) -DOTLITE_VERSION='"$(VERSION)"' \
	$(CFLAGS) -MMD -MP
LDFLAGS  += -pie -Wl,-z,relro,-z,now $(SANFLAGS)
LIBS     := -lpcre2-8 -lsqlite3 -levent_core -lprotobuf-c -lz -lcrypto -lm -lpthread

PROTOS := $(wildcard proto/*.proto)
GEN_C  := $(patsubst proto/%.proto,$(B)/gen/%.pb-c.c,$(PROTOS))
GEN_H  := $(GEN_C:.c=.h)
GEN_O  := $(GEN_C:.c=.o)

SRC := $(sort $(filter-out src/extension/%,$(wildcard src/*/*.c)))
OBJ := $(SRC:%.c=$(B)/%.o) $(GEN_O)
LIB := $(B)/libotlite.a

# otlite.so: the layers up to the store once more, position-independent, and with the SQLite of whoever
# loads it (src/extension/host/sqlite3.h). Never with sanitizers: the sqlite3 shell has none.
EXT_SRC   := $(sort $(wildcard src/base/*.c src/otlp/*.c src/store/*.c)) src/extension/otlite.c
EXT_OBJ   := $(EXT_SRC:%.c=$(B)/ext/%.o) $(GEN_C:$(B)/gen/%.c=$(B)/ext/gen/%.o)
EXT_FLAGS := $(STD) -O2 -g -fstack-protector-strong -fPIC -fvisibility=hidden -ffunction-sections \
	-fdata-sections -D_FORTIFY_SOURCE=2 -Isrc/extension/host $(INCLUDES) \
	-DOTLITE_VERSION='"$(VERSION)"' -MMD -MP
EXT_LIBS  := -lpcre2-8 -lprotobuf-c -lz -lcrypto -lm -lpthread

UNIT_SRC  := $(sort $(wildcard test/unit/test_*.c))
UNIT_BIN  := $(UNIT_SRC:test/unit/%.c=$(B)/test/%)
BENCH_SRC := $(sort $(wildcard bench/*.c))
BENCH_OBJ := $(BENCH_SRC:%.c=$(B)/%.o)

.PHONY: all run test unit torture bench bench-full bench-bin soak install clean deps-build deps-test format \
	lint-deps docs container-test fuzz fuzz-bin
.DELETE_ON_ERROR:

all: deps-build
	@$(MAKE) $(JOBS) --no-print-directory $(B)/otlite $(B)/otlite.so

# Installs packages only when something is missing.
deps-build:
	@deploy/deps.sh build
deps-test:
	@deploy/deps.sh test

run: all
	./$(B)/otlite serve --listen 127.0.0.1:4318 --data ./data

$(B)/otlite: $(B)/src/main.o $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

# The archive is made anew so that a deleted source leaves no object behind.
$(LIB): $(OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/otlite.so: $(EXT_OBJ)
	$(CC) -shared -Wl,-z,relro,-z,now,-z,defs,--gc-sections,--as-needed -o $@ $^ $(EXT_LIBS)

$(B)/ext/src/%.o: src/%.c | $(GEN_H)
	@mkdir -p $(@D)
	$(CC) $(EXT_FLAGS) $(WARNINGS) $(WERROR) -c -o $@ $<

$(B)/ext/gen/%.o: $(B)/gen/%.c $(GEN_H)
	@mkdir -p $(@D)
	$(CC) $(EXT_FLAGS) -w -c -o $@ $<

$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h: proto/%.proto
	@mkdir -p $(B)/gen
	protoc-c --c_out=$(B)/gen --proto_path=proto --proto_path=/usr/include $<

# Made on the way to objects, but wanted again by every later compilation.
.SECONDARY: $(GEN_C) $(GEN_H)

$(B)/gen/%.pb-c.o: $(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h
	$(CC) $(ALLFLAGS) -w -c -o $@ $<

$(B)/src/%.o: src/%.c | $(GEN_H)
	@mkdir -p $(@D)
	$(CC) $(ALLFLAGS) $(WARNINGS) $(WERROR) -c -o $@ $<

$(B)/bench/%.o: bench/%.c | $(GEN_H)
	@mkdir -p $(@D)
	$(CC) $(ALLFLAGS) $(WARNINGS) $(WERROR) -c -o $@ $<

$(B)/otlite-bench: $(BENCH_OBJ) $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

# Unit tests: one binary a file, with test/lib beside them.
$(B)/test/%: test/unit/%.c $(wildcard test/lib/*.c test/lib/*.h) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALLFLAGS) -Itest/lib -Wall -Wextra $(WERROR) -MF $@.d -o $@ $< $(wildcard test/lib/*.c) \
		$(LIB) $(LDFLAGS) $(LIBS) -lcmocka -ljansson

unit: $(UNIT_BIN)

# Random sequences of inserts, seals, merges, retention and restarts against a naive model.
TORTURE_SEQUENCES ?= 100000
torture: deps-build deps-test
	@$(MAKE) $(JOBS) --no-print-directory $(B)/test/test_storage_model
	OTLITE_MODEL_SEQUENCES=$(TORTURE_SEQUENCES) $(B)/test/test_storage_model

bench-bin: $(B)/otlite-bench

test: deps-build deps-test
	@$(MAKE) $(JOBS) --no-print-directory $(B)/otlite $(B)/otlite.so $(B)/otlite-bench unit
	@B=$(B) SAN=$(SAN) test/run.sh

bench: deps-build
	@$(MAKE) $(JOBS) --no-print-directory $(B)/otlite $(B)/otlite-bench
	@B=$(B) bench/run.sh short

bench-full: deps-build
	@$(MAKE) $(JOBS) --no-print-directory $(B)/otlite $(B)/otlite-bench
	@B=$(B) bench/run.sh full

SOAK_DURATION ?= 30m
soak: deps-build
	@$(MAKE) $(JOBS) --no-print-directory $(B)/otlite $(B)/otlite-bench
	$(B)/otlite-bench soak --duration $(SOAK_DURATION) --out $(B)/bench/soak

# Every test/fuzz/fuzz_NAME.c runs for FUZZ_SECONDS. It starts from what test/fuzz/seed_NAME.sh writes, when
# there is one; what it finds stays in build/fuzz/corpus/NAME, so each run goes on where the last ended.
FUZZ_SECONDS ?= 60
FUZZERS := $(patsubst test/fuzz/fuzz_%.c,%,$(sort $(wildcard test/fuzz/fuzz_*.c)))
fuzz: deps-build
	@$(MAKE) $(JOBS) --no-print-directory CC=clang SAN=address,undefined \
		CFLAGS=-fsanitize=fuzzer-no-link B=build/fuzz fuzz-bin
	@set -e; for f in $(FUZZERS); do \
		mkdir -p build/fuzz/corpus/$$f build/fuzz/seeds/$$f; \
		if [ -x test/fuzz/seed_$$f.sh ]; then test/fuzz/seed_$$f.sh build/fuzz/seeds/$$f; fi; \
		echo "== fuzz_$$f"; \
		build/fuzz/fuzz_$$f -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -timeout=10 \
			-rss_limit_mb=2048 -artifact_prefix=build/fuzz/$$f- build/fuzz/corpus/$$f \
			build/fuzz/seeds/$$f; \
	done
fuzz-bin: $(FUZZERS:%=$(B)/fuzz_%)

$(B)/fuzz_%: test/fuzz/fuzz_%.c $(LIB)
	$(CC) $(ALLFLAGS) $(WARNINGS) $(WERROR) -fsanitize=fuzzer -MF $@.d -o $@ $< $(LIB) $(LDFLAGS) $(LIBS)

install: all
	install -D -m 755 $(B)/otlite $(DESTDIR)$(PREFIX)/bin/otlite
	install -D -m 644 $(B)/otlite.so $(DESTDIR)$(PREFIX)/lib/otlite/otlite.so
	install -D -m 644 deploy/otlite.conf $(DESTDIR)$(PREFIX)/share/otlite/otlite.conf
	install -D -m 644 deploy/otlite.service $(DESTDIR)$(PREFIX)/lib/systemd/system/otlite.service

container-test:
	@deploy/container-test.sh

# docs/configuration.md and deploy/otlite.conf come from the option table.
docs: $(B)/otlite
	$(B)/otlite check-config --markdown > docs/configuration.md
	$(B)/otlite check-config --sample > deploy/otlite.conf

# No include points upward (docs/architecture.md, "Layers").
lint-deps:
	@test/lint-deps.sh

format:
	clang-format -i $(wildcard src/*.c src/*/*.[ch] src/extension/host/*.h include/otlite/*.h bench/*.[ch] test/unit/*.c \
	test/lib/*.[ch] test/fuzz/*.c)

clean:
	rm -rf build

-include $(OBJ:.o=.d) $(B)/src/main.d $(BENCH_OBJ:.o=.d) $(addsuffix .d,$(UNIT_BIN)) \
	$(FUZZERS:%=$(B)/fuzz_%.d) $(EXT_OBJ:.o=.d)
