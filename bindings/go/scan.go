package firn

import (
	"database/sql"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"time"
)

// fieldsOf returns the names of a struct's exported fields in CQL: the tag `cql`, or the name in lower
// case. The tag "-" leaves a field out.
func fieldsOf(t reflect.Type) map[string]int {
	fields := map[string]int{}
	for at := range t.NumField() {
		field := t.Field(at)
		name, ok := field.Tag.Lookup("cql")
		if !field.IsExported() || name == "-" {
			continue
		}
		if !ok {
			name = strings.ToLower(field.Name)
		}
		fields[name] = at
	}
	return fields
}

// assign stores a value of CQL in the variable that to points to.
func assign(to any, value any) error {
	switch to := to.(type) {
	case *any:
		*to = value
		return nil
	case *string:
		if text, ok := value.(string); ok {
			*to = text
			return nil
		}
	case *int64:
		if n, ok := value.(int64); ok {
			*to = n
			return nil
		}
	case *[]byte:
		if b, ok := value.([]byte); ok {
			*to = b
			return nil
		}
	case sql.Scanner:
		return to.Scan(value)
	}
	v := reflect.ValueOf(to)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("Scan needs a pointer, not %T", to)
	}
	return set(v.Elem(), value)
}

func mismatch(to reflect.Value, value any) error {
	if value == nil {
		return fmt.Errorf("null can't be stored in %s; use a pointer", to.Type())
	}
	return fmt.Errorf("%T can't be stored in %s", value, to.Type())
}

// set stores a value in a variable of any type.
func set(to reflect.Value, value any) error {
	if to.Kind() == reflect.Pointer && to.Type() != reflect.TypeFor[*big.Int]() {
		if value == nil {
			to.SetZero()
			return nil
		}
		element := reflect.New(to.Type().Elem())
		if err := assign(element.Interface(), value); err != nil {
			return err
		}
		to.Set(element)
		return nil
	}
	if value == nil {
		switch to.Kind() {
		case reflect.Slice, reflect.Map, reflect.Interface, reflect.Pointer:
			to.SetZero()
			return nil
		}
		return mismatch(to, value)
	}
	from := reflect.ValueOf(value)
	if from.Type().AssignableTo(to.Type()) {
		to.Set(from)
		return nil
	}
	switch v := value.(type) {
	case int64:
		return setInt(to, v)
	case *big.Int:
		if v.IsInt64() {
			return setInt(to, v.Int64())
		}
		if to.CanUint() && v.IsUint64() && !to.OverflowUint(v.Uint64()) {
			to.SetUint(v.Uint64())
			return nil
		}
	case float64:
		if to.CanFloat() {
			to.SetFloat(v)
			return nil
		}
	case bool:
		if to.Kind() == reflect.Bool {
			to.SetBool(v)
			return nil
		}
	case string:
		if to.Kind() == reflect.String {
			to.SetString(v)
			return nil
		}
	case UUID:
		return setUUID(to, v)
	case netip.Addr:
		switch to.Type() {
		case reflect.TypeFor[net.IP]():
			to.SetBytes(v.AsSlice())
			return nil
		case reflect.TypeFor[string]():
			to.SetString(v.String())
			return nil
		}
	case time.Time, time.Duration:
	case []any:
		return setList(to, v)
	case Map:
		return setMap(to, v)
	case map[string]any:
		return setFields(to, v)
	}
	return mismatch(to, value)
}

func setInt(to reflect.Value, n int64) error {
	switch {
	case to.Type() == reflect.TypeFor[*big.Int]():
		to.Set(reflect.ValueOf(big.NewInt(n)))
	case to.CanInt() && !to.OverflowInt(n):
		to.SetInt(n)
	case to.CanUint() && n >= 0 && !to.OverflowUint(uint64(n)):
		to.SetUint(uint64(n))
	case to.CanInt() || to.CanUint():
		return fmt.Errorf("%d is out of the range of %s", n, to.Type())
	default:
		return mismatch(to, n)
	}
	return nil
}

func setUUID(to reflect.Value, u UUID) error {
	switch {
	case to.Kind() == reflect.String:
		to.SetString(u.String())
	case to.Kind() == reflect.Array && reflect.TypeOf(u).ConvertibleTo(to.Type()):
		to.Set(reflect.ValueOf(u).Convert(to.Type()))
	default:
		return mismatch(to, u)
	}
	return nil
}

// setList stores a list, set or tuple: in a slice, an array of its length, a map to empty structs, or
// the fields of a struct in their order.
func setList(to reflect.Value, values []any) error {
	switch {
	case to.Kind() == reflect.Slice:
		to.Set(reflect.MakeSlice(to.Type(), len(values), len(values)))
	case to.Kind() == reflect.Array && to.Len() == len(values):
	case to.Kind() == reflect.Map && to.Type().Elem() == reflect.TypeFor[struct{}]():
		to.Set(reflect.MakeMapWithSize(to.Type(), len(values)))
		for _, value := range values {
			key := reflect.New(to.Type().Key()).Elem()
			if err := set(key, value); err != nil {
				return err
			}
			to.SetMapIndex(key, reflect.Zero(to.Type().Elem()))
		}
		return nil
	case to.Kind() == reflect.Struct && to.NumField() == len(values):
		for at, value := range values {
			if err := assign(to.Field(at).Addr().Interface(), value); err != nil {
				return err
			}
		}
		return nil
	default:
		return mismatch(to, values)
	}
	for at, value := range values {
		if err := assign(to.Index(at).Addr().Interface(), value); err != nil {
			return err
		}
	}
	return nil
}

func setMap(to reflect.Value, pairs Map) error {
	if to.Kind() != reflect.Map {
		return mismatch(to, pairs)
	}
	to.Set(reflect.MakeMapWithSize(to.Type(), len(pairs)))
	for _, pair := range pairs {
		key, value := reflect.New(to.Type().Key()), reflect.New(to.Type().Elem())
		if err := assign(key.Interface(), pair.Key); err != nil {
			return err
		}
		if key.Elem().Kind() == reflect.Interface && !key.Elem().Elem().Comparable() {
			return fmt.Errorf("%T is no key of a map of Go; use firn.Map", pair.Key)
		}
		if err := assign(value.Interface(), pair.Value); err != nil {
			return err
		}
		to.SetMapIndex(key.Elem(), value.Elem())
	}
	return nil
}

func setFields(to reflect.Value, fields map[string]any) error {
	if to.Kind() != reflect.Struct {
		return mismatch(to, fields)
	}
	known := fieldsOf(to.Type())
	for name, value := range fields {
		at, ok := known[name]
		if !ok {
			continue
		}
		if value == nil {
			to.Field(at).SetZero()
			continue
		}
		if err := assign(to.Field(at).Addr().Interface(), value); err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
	}
	return nil
}
