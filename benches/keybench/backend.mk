# Firn, through its C library: see benches/keybench/README.md.
FIRN_CFLAGS ?= -I../firn/bindings/c/include
FIRN_LIBS   ?= -L../firn/bindings/target/release -lfirn_c

SRC    += backends/firn/firn.c
CFLAGS += $(FIRN_CFLAGS)
LDLIBS += $(FIRN_LIBS)
