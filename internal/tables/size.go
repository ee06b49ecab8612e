package tables

import (
	"reflect"
	"time"
)

// sizeOf is about how much memory a row takes, in bytes, with what it refers to.
func sizeOf(row any) int64 {
	if row == nil {
		return 0
	}
	v := reflect.ValueOf(row)
	return int64(v.Type().Size()) + referred(v)
}

// referred is the memory that a value refers to.
func referred(v reflect.Value) (n int64) {
	switch v.Kind() {
	case reflect.String:
		n = int64(v.Len())
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			n = int64(v.Len()) * int64(v.Type().Elem().Size())
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return n
		}
		for i := range v.Len() {
			n += referred(v.Index(i))
		}
	case reflect.Map:
		entry := int64(v.Type().Key().Size() + v.Type().Elem().Size())
		for each := v.MapRange(); each.Next(); {
			n += entry + referred(each.Key()) + referred(each.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += referred(v.Field(i))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() && v.Type() != reflect.TypeFor[*time.Location]() {
			n = int64(v.Elem().Type().Size()) + referred(v.Elem())
		}
	}
	return n
}
