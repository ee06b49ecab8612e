package placementsim

import (
	"maps"
	"slices"
)

// integer returns a number that a schema has found to be an integer, cut off
// far outside of every limit.
func integer(value any) int64 {
	const far = 1 << 53
	switch v := value.(type) {
	case int64:
		return max(-far, min(v, far))
	case float64:
		return int64(max(-far, min(v, far)))
	}
	return 0
}

func number(value any) float64 {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

func object(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}

func array(value any) []any {
	a, _ := value.([]any)
	return a
}

func textList(value any) []string {
	list := make([]string, 0, len(array(value)))
	for _, item := range array(value) {
		list = append(list, text(item))
	}
	return list
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
