package firn

// #include <firn.h>
import "C"

import (
	"context"
	"iter"
	"runtime"
	"time"
)

// ChangeKind is the kind of an operation.
type ChangeKind uint32

const (
	ChangePut         ChangeKind = C.FIRN_CHANGE_PUT          // a put of Key with Value
	ChangeDelete      ChangeKind = C.FIRN_CHANGE_DELETE       // a delete of Key
	ChangeDeleteRange ChangeKind = C.FIRN_CHANGE_DELETE_RANGE // a delete of the keys from Key on, before End
	ChangeMerge       ChangeKind = C.FIRN_CHANGE_MERGE        // a merge of Key with the operand Value
)

// String returns the name of the kind.
func (k ChangeKind) String() string {
	switch k {
	case ChangePut:
		return "put"
	case ChangeDelete:
		return "delete"
	case ChangeDeleteRange:
		return "delete range"
	case ChangeMerge:
		return "merge"
	}
	return "unknown"
}

// ChangeOp is an operation of a change.
type ChangeOp struct {
	Kind    ChangeKind
	Tree    string    // the name of the tree
	Key     []byte    // the key, or the start of the range
	Value   []byte    // the value or operand
	End     []byte    // the end of the range, which is excluded; nil: unbounded
	Expires time.Time // the deadline of the value; the zero time if there is none
}

// Change is a batch, or a single write.
type Change struct {
	Position string     // the position after the change; store it with the effects of the change
	Loaded   bool       // whether it bypassed the log or dropped a tree, so that it has no operations: copy a snapshot
	Ops      []ChangeOp // the operations in their order
}

// Subscription is a durable change feed of a store: a name with a position in the log. One goroutine at
// a time may use it.
type Subscription struct {
	handle *handle[*C.FirnSubscription]
}

// Longest wait of a call of the library, after which Next looks at its context.
const wait = 50 * time.Millisecond

// Subscribe opens the subscription of this name, and creates it if it does not exist. The store retains
// at most maxLogBytes of its log for it, also while no program has it open. A new subscription, and one
// whose log is lost, begins with a snapshot: SnapshotDue. ErrLocked if another handle uses it.
func (db *DB) Subscribe(name string, maxLogBytes int64) (*Subscription, error) {
	defer runtime.KeepAlive(db)
	var c *C.FirnSubscription
	err := call(func() C.FirnCode {
		return C.firn_db_subscribe(db.c, borrowText(name), C.uint64_t(max(maxLogBytes, 0)), &c)
	})
	if err != nil {
		return nil, err
	}
	s := &Subscription{}
	s.handle = newHandle(s, c, func(c *C.FirnSubscription) { C.firn_subscription_free(c) })
	return s, nil
}

// DropSubscription drops a subscription and releases its part of the log.
func (db *DB) DropSubscription(name string) error {
	defer runtime.KeepAlive(db)
	return call(func() C.FirnCode { return C.firn_db_drop_subscription(db.c, borrowText(name)) })
}

func (s *Subscription) call(work func(*C.FirnSubscription) C.FirnCode) error {
	return s.handle.call("subscription", work)
}

// SnapshotDue reports whether the consumer must copy a Snapshot before it continues. This is so until
// the first acknowledgement, and after the log has lost changes.
func (s *Subscription) SnapshotDue() (bool, error) {
	var due C.bool
	err := s.call(func(c *C.FirnSubscription) C.FirnCode { return C.firn_subscription_snapshot_due(c, &due) })
	return bool(due), err
}

// Snapshot begins again at the present state, and returns a snapshot of it. Acknowledge it when it is
// copied.
func (s *Subscription) Snapshot() (*Snapshot, error) {
	var c *C.FirnSnapshot
	err := s.call(func(of *C.FirnSubscription) C.FirnCode { return C.firn_subscription_snapshot(of, &c) })
	if err != nil {
		return nil, err
	}
	snapshot := &Snapshot{}
	snapshot.handle = newHandle(snapshot, c, func(c *C.FirnSnapshot) { C.firn_snapshot_free(c) })
	return snapshot, nil
}

// Next returns the next change, once it is durable. It waits for one until ctx ends, and returns the
// error of ctx then. ErrLagged if the log has lost changes: begin again with a Snapshot.
func (s *Subscription) Next(ctx context.Context) (*Change, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if change, err := s.next(wait); change != nil || err != nil {
			return change, err
		}
	}
}

// TryNext returns the next change, or nil if there is none yet.
func (s *Subscription) TryNext() (*Change, error) { return s.next(0) }

func (s *Subscription) next(wait time.Duration) (*Change, error) {
	change := &Change{}
	var code C.FirnCode
	err := s.call(func(c *C.FirnSubscription) C.FirnCode {
		var of *C.FirnChange
		if code = C.firn_subscription_next(c, C.uint64_t(wait.Microseconds()), &of); code != C.FIRN_CODE_OK {
			return code
		}
		defer C.firn_change_free(of)
		var position C.FirnBytes
		if code := C.firn_subscription_position(c, &position); code != C.FIRN_CODE_OK {
			return code
		}
		change.Position = string(take(position))
		return change.read(of)
	})
	if err != nil || code == C.FIRN_CODE_NONE {
		return nil, err
	}
	return change, nil
}

// read copies the operations of a change.
func (change *Change) read(c *C.FirnChange) C.FirnCode {
	var loaded C.bool
	if code := C.firn_change_is_loaded(c, &loaded); code != C.FIRN_CODE_OK {
		return code
	}
	change.Loaded = bool(loaded)
	for {
		var op C.FirnChangeOp
		code := C.firn_change_next(c, &op)
		if code == C.FIRN_CODE_NONE {
			return C.FIRN_CODE_OK
		}
		if code != C.FIRN_CODE_OK {
			return code
		}
		read := ChangeOp{
			Kind: ChangeKind(op.kind),
			Tree: string(goBytes(op.tree.data, op.tree.len)),
			Key:  goBytes(op.key.data, op.key.len),
		}
		if op.value.data != nil {
			value := goBytes(op.value.data, op.value.len)
			if read.Kind == ChangeDeleteRange {
				read.End = value
			} else {
				read.Value = value
			}
		}
		if op.expires_micros != 0 {
			read.Expires = time.UnixMicro(int64(op.expires_micros))
		}
		change.Ops = append(change.Ops, read)
	}
}

// All returns the further changes for a range loop, which waits for them until ctx ends. The loop ends
// after an error, that of ctx included.
//
//	for change, err := range changes.All(ctx) {
//		if err != nil {
//			return err
//		}
//		…
//	}
func (s *Subscription) All(ctx context.Context) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for {
			change, err := s.Next(ctx)
			if !yield(change, err) || err != nil {
				return
			}
		}
	}
}

// Position returns the position after the last change that was returned.
func (s *Subscription) Position() (string, error) {
	var position C.FirnBytes
	err := s.call(func(c *C.FirnSubscription) C.FirnCode { return C.firn_subscription_position(c, &position) })
	if err != nil {
		return "", err
	}
	return string(take(position)), nil
}

// Acknowledge acknowledges all changes that were returned, or the snapshot: they have been processed, and
// are not returned again.
func (s *Subscription) Acknowledge() error {
	return s.call(func(c *C.FirnSubscription) C.FirnCode { return C.firn_subscription_acknowledge(c) })
}

// Resume continues after the position that the consumer stored with its effects, and acknowledges it. So
// each change takes effect once. ErrLagged if the log has lost changes since: begin again with a Snapshot.
func (s *Subscription) Resume(position string) error {
	return s.call(func(c *C.FirnSubscription) C.FirnCode {
		return C.firn_subscription_resume(c, borrowText(position))
	})
}

// Close releases the handle. The subscription stays in the store.
func (s *Subscription) Close() error {
	s.handle.close()
	return nil
}
