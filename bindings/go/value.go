package firn

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"time"
)

// UUID is a value of the types uuid and timeuuid.
type UUID [16]byte

// String returns the usual form, with hyphens.
func (u UUID) String() string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ParseUUID reads the usual form, with hyphens.
func ParseUUID(text string) (UUID, error) {
	var u UUID
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return u, fmt.Errorf("firn: %q is no uuid", text)
	}
	digits := text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil {
		return u, fmt.Errorf("firn: %q is no uuid", text)
	}
	return u, nil
}

// Pair is an entry of a Map.
type Pair struct{ Key, Value any }

// Map is a value of a map type, in the order of its keys. Scan also converts it to a map of Go.
type Map []Pair

// Named is an argument of a statement that has the values of all markers, by their names. A marker
// without a value leaves its column unchanged.
type Named map[string]any

type unset struct{}

// Unset is an argument that leaves its column unchanged.
var Unset any = unset{}

const secondsOfDay = 86400

// unpacker reads packed bytes; README.md of the C library describes them.
type unpacker struct {
	bytes []byte
	err   error
}

var errPacked = errors.New("firn: packed bytes of the library are invalid")

func (u *unpacker) next(length int) []byte {
	if length < 0 || length > len(u.bytes) {
		u.err = errPacked
		u.bytes = nil
		return make([]byte, min(max(length, 0), 16))
	}
	taken := u.bytes[:length:length]
	u.bytes = u.bytes[length:]
	return taken
}

func (u *unpacker) byte() byte   { return u.next(1)[0] }
func (u *unpacker) number() int  { return int(binary.LittleEndian.Uint32(u.next(4))) }
func (u *unpacker) take() []byte { return u.next(u.number()) }
func (u *unpacker) text() string { return string(u.take()) }
func (u *unpacker) int64() int64 { return int64(binary.LittleEndian.Uint64(u.next(8))) }

// count returns the number of parts of a value; each has at least one byte.
func (u *unpacker) count() int {
	count := u.number()
	if count > len(u.bytes) {
		u.err = errPacked
		return 0
	}
	return count
}

func (u *unpacker) values() []any {
	values := make([]any, u.count())
	for at := range values {
		values[at] = u.value()
	}
	return values
}

func (u *unpacker) value() any {
	switch tag := u.byte(); tag {
	case 0, 1, 2:
		return nil
	case 3, 4:
		return tag == 4
	case 5:
		return int64(int32(binary.LittleEndian.Uint32(u.next(4))))
	case 6:
		return u.int64()
	case 7:
		b := u.take()
		n := new(big.Int).SetBytes(b)
		if len(b) > 0 && b[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		return n
	case 8, 11, 18:
		return u.text()
	case 9:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(u.next(4))))
	case 10:
		return math.Float64frombits(uint64(u.int64()))
	case 12:
		// A copy, or a short blob would retain the memory of its chunk.
		return append([]byte{}, u.take()...)
	case 13:
		return UUID(u.next(16))
	case 14:
		address, err := netip.ParseAddr(u.text())
		if err != nil {
			u.err = errPacked
		}
		return address
	case 15:
		return time.Unix(u.int64()*secondsOfDay, 0).UTC()
	case 16:
		return time.Duration(u.int64())
	case 17:
		return time.UnixMilli(u.int64()).UTC()
	case 19, 20, 22:
		return u.values()
	case 21:
		pairs := make(Map, u.count())
		for at := range pairs {
			pairs[at] = Pair{u.value(), u.value()}
		}
		return pairs
	case 23:
		count := u.count()
		fields := make(map[string]any, count)
		for range count {
			name := u.text()
			fields[name] = u.value()
		}
		return fields
	default:
		u.err = errPacked
		return nil
	}
}

// packArguments packs the arguments of a statement.
func packArguments(args []any) ([]byte, error) {
	if len(args) == 0 {
		return nil, nil
	}
	var err error
	if named, ok := args[0].(Named); ok && len(args) == 1 {
		packed := appendNumber([]byte{1}, len(named))
		for name, value := range named {
			packed = appendBytes(packed, []byte(name))
			if packed, err = appendValue(packed, value); err != nil {
				return nil, fmt.Errorf("firn: argument %s: %w", name, err)
			}
		}
		return packed, nil
	}
	packed := appendNumber(make([]byte, 1, 128), len(args))
	for at, value := range args {
		if packed, err = appendValue(packed, value); err != nil {
			return nil, fmt.Errorf("firn: argument %d: %w", at+1, err)
		}
	}
	return packed, nil
}

func appendNumber(packed []byte, n int) []byte {
	return binary.LittleEndian.AppendUint32(packed, uint32(n))
}

func appendInt(packed []byte, tag byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(append(packed, tag), uint64(n))
}

func appendText(packed []byte, tag byte, text string) []byte {
	return append(appendNumber(append(packed, tag), len(text)), text...)
}

func appendBig(packed []byte, n *big.Int) []byte {
	// Two's complement with room for the sign.
	length := n.BitLen()/8 + 1
	b := make([]byte, length)
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*length)))
	}
	return appendBytes(append(packed, 7), n.FillBytes(b))
}

// appendValue packs a value by its type in Go; the library converts it to the type of the marker.
func appendValue(packed []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(packed, 0), nil
	case unset:
		return append(packed, 1), nil
	case bool:
		if v {
			return append(packed, 4), nil
		}
		return append(packed, 3), nil
	case int:
		return appendInt(packed, 6, int64(v)), nil
	case int64:
		return appendInt(packed, 6, v), nil
	case float64:
		return appendInt(packed, 10, int64(math.Float64bits(v))), nil
	case string:
		return appendText(packed, 11, v), nil
	case []byte:
		if v == nil {
			return append(packed, 0), nil
		}
		return appendBytes(append(packed, 12), v), nil
	case UUID:
		return append(append(packed, 13), v[:]...), nil
	case time.Time:
		return appendInt(packed, 17, v.UnixMilli()), nil
	case time.Duration:
		return appendInt(packed, 16, int64(v)), nil
	case netip.Addr:
		return appendText(packed, 14, v.WithZone("").String()), nil
	case net.IP:
		return appendText(packed, 14, v.String()), nil
	case *big.Int:
		if v == nil {
			return append(packed, 0), nil
		}
		return appendBig(packed, v), nil
	case Map:
		packed = appendNumber(append(packed, 21), len(v))
		var err error
		for _, pair := range v {
			if packed, err = appendPair(packed, pair.Key, pair.Value); err != nil {
				return nil, err
			}
		}
		return packed, nil
	}
	return appendReflected(packed, reflect.ValueOf(value))
}

func appendPair(packed []byte, key, value any) ([]byte, error) {
	packed, err := appendValue(packed, key)
	if err != nil {
		return nil, err
	}
	return appendValue(packed, value)
}

func appendReflected(packed []byte, v reflect.Value) ([]byte, error) {
	var err error
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(packed, 0), nil
		}
		return appendValue(packed, v.Elem().Interface())
	case reflect.Bool:
		return appendValue(packed, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return appendInt(packed, 6, v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return appendBig(packed, new(big.Int).SetUint64(v.Uint())), nil
	case reflect.Float32, reflect.Float64:
		return appendValue(packed, v.Float())
	case reflect.String:
		return appendText(packed, 11, v.String()), nil
	case reflect.Array, reflect.Slice:
		if v.Kind() == reflect.Slice && v.IsNil() {
			return append(packed, 0), nil
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b := make([]byte, v.Len())
			reflect.Copy(reflect.ValueOf(b), v)
			if v.Type().ConvertibleTo(reflect.TypeFor[UUID]()) && v.Kind() == reflect.Array {
				return append(append(packed, 13), b...), nil
			}
			return appendBytes(append(packed, 12), b), nil
		}
		packed = appendNumber(append(packed, 19), v.Len())
		for at := range v.Len() {
			if packed, err = appendValue(packed, v.Index(at).Interface()); err != nil {
				return nil, err
			}
		}
		return packed, nil
	case reflect.Map:
		return appendMap(packed, v)
	case reflect.Struct:
		fields := fieldsOf(v.Type())
		packed = appendNumber(append(packed, 23), len(fields))
		for name, at := range fields {
			packed = appendBytes(packed, []byte(name))
			if packed, err = appendValue(packed, v.Field(at).Interface()); err != nil {
				return nil, err
			}
		}
		return packed, nil
	}
	return nil, fmt.Errorf("a %s can't be bound", v.Type())
}

// appendMap packs a map: one to empty structs is a set, one from names to any is of a user type or a
// map with text keys.
func appendMap(packed []byte, v reflect.Value) ([]byte, error) {
	if v.IsNil() {
		return append(packed, 0), nil
	}
	isSet := v.Type().Elem() == reflect.TypeFor[struct{}]()
	isFields := v.Type() == reflect.TypeFor[map[string]any]()
	tag := byte(21)
	if isSet {
		tag = 20
	} else if isFields {
		tag = 23
	}
	packed = appendNumber(append(packed, tag), v.Len())
	var err error
	for entries := v.MapRange(); entries.Next(); {
		key := entries.Key().Interface()
		switch {
		case isSet:
			packed, err = appendValue(packed, key)
		case isFields:
			packed, err = appendValue(appendBytes(packed, []byte(key.(string))), entries.Value().Interface())
		default:
			packed, err = appendPair(packed, key, entries.Value().Interface())
		}
		if err != nil {
			return nil, err
		}
	}
	return packed, nil
}
