//go:build !firn_static && !firn_flags

package firn

// #cgo pkg-config: firn
import "C"
