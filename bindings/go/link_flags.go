//go:build firn_flags && !firn_static

package firn

// CGO_CFLAGS and CGO_LDFLAGS name the folders of firn.h and of the library.

// #cgo LDFLAGS: -lfirn_c
import "C"
