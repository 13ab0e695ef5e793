//go:build firn_static

package firn

// CGO_CFLAGS and CGO_LDFLAGS name the folders of firn.h and libfirn_c.a.

// #cgo LDFLAGS: -l:libfirn_c.a -lpthread -ldl -lm
import "C"
