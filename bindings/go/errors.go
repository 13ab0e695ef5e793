package firn

// #include <firn.h>
import "C"

import (
	"errors"
	"fmt"
)

// Code is the class of an error.
type Code int

// Classes of errors. The texts of the C interface describe them.
const (
	CodeCorruption      Code = C.FIRN_CODE_CORRUPTION       // bytes on disk are damaged
	CodeIO              Code = C.FIRN_CODE_IO               // the operating system returned an error
	CodeNoSpace         Code = C.FIRN_CODE_NO_SPACE         // the device or a quota is full
	CodeExhausted       Code = C.FIRN_CODE_EXHAUSTED        // file descriptors or memory are exhausted
	CodeReadOnly        Code = C.FIRN_CODE_READ_ONLY        // the store accepts no writes
	CodeLocked          Code = C.FIRN_CODE_LOCKED           // another process or handle has the store open, or a key locked
	CodeConflict        Code = C.FIRN_CODE_CONFLICT         // data read by a transaction has changed since
	CodeInvalidArgument Code = C.FIRN_CODE_INVALID_ARGUMENT // an argument is out of range
	CodeIncompatible    Code = C.FIRN_CODE_INCOMPATIBLE     // the files were written by a newer version
	CodeNotFound        Code = C.FIRN_CODE_NOT_FOUND        // no such store, tree or file
	CodeLagged          Code = C.FIRN_CODE_LAGGED           // the log no longer has the changes
	CodeClosed          Code = C.FIRN_CODE_CLOSED           // the store, tree or handle was closed or dropped
	CodeSyntax          Code = C.FIRN_CODE_SYNTAX           // the text is not valid CQL
	CodeInvalidRequest  Code = C.FIRN_CODE_INVALID_REQUEST  // the statement is invalid
	CodeUnauthorized    Code = C.FIRN_CODE_UNAUTHORIZED     // the operation is not permitted
	CodeConfiguration   Code = C.FIRN_CODE_CONFIGURATION    // a replication strategy or an option is invalid
	CodeAlreadyExists   Code = C.FIRN_CODE_ALREADY_EXISTS   // the keyspace or table exists already
	CodeFunctionFailure Code = C.FIRN_CODE_FUNCTION_FAILURE // a user-defined function failed
	CodeServer          Code = C.FIRN_CODE_SERVER           // another error of CQL
	CodePanic           Code = C.FIRN_CODE_PANIC            // a bug in Firn
)

// Error is an error of Firn. errors.Is compares it with the Err variables by its code:
//
//	if errors.Is(err, firn.ErrConflict) { … }
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return "firn: " + e.Message }

// Is reports whether the other error is one of Firn with the same code.
func (e *Error) Is(other error) bool {
	of, ok := other.(*Error)
	return ok && of.Code == e.Code
}

// Errors by their class, for errors.Is.
var (
	ErrCorruption      = &Error{CodeCorruption, "corruption"}
	ErrIO              = &Error{CodeIO, "I/O error"}
	ErrNoSpace         = &Error{CodeNoSpace, "no space"}
	ErrExhausted       = &Error{CodeExhausted, "resources exhausted"}
	ErrReadOnly        = &Error{CodeReadOnly, "read-only store"}
	ErrLocked          = &Error{CodeLocked, "locked"}
	ErrConflict        = &Error{CodeConflict, "conflict"}
	ErrInvalidArgument = &Error{CodeInvalidArgument, "invalid argument"}
	ErrIncompatible    = &Error{CodeIncompatible, "incompatible files"}
	ErrStoreNotFound   = &Error{CodeNotFound, "no such store, tree or file"}
	ErrLagged          = &Error{CodeLagged, "lagged"}
	ErrClosed          = &Error{CodeClosed, "closed"}
	ErrSyntax          = &Error{CodeSyntax, "syntax error"}
	ErrInvalidRequest  = &Error{CodeInvalidRequest, "invalid request"}
	ErrUnauthorized    = &Error{CodeUnauthorized, "unauthorized"}
	ErrConfiguration   = &Error{CodeConfiguration, "invalid configuration"}
	ErrAlreadyExists   = &Error{CodeAlreadyExists, "already exists"}
	ErrFunctionFailure = &Error{CodeFunctionFailure, "a function failed"}
)

// ErrNotFound is returned by Get for a key without a value.
var ErrNotFound = errors.New("firn: key not found")

// failure returns the error of a call, and nil for success. The message belongs to the thread, so
// the goroutine must not have left the thread since the call.
func failure(code C.FirnCode) error {
	if code == C.FIRN_CODE_OK || code == C.FIRN_CODE_NONE {
		return nil
	}
	return &Error{Code(code), C.GoString(C.firn_error_message())}
}

func closedError(what string) error {
	return &Error{CodeClosed, fmt.Sprintf("the %s is closed", what)}
}
