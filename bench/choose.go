package main

import (
	"fmt"
	"slices"
	"strings"
)

// names joins the names of cells or sections with commas.
func names[T fmt.Stringer](all []T) string {
	var words []string
	for _, one := range all {
		words = append(words, one.String())
	}
	return strings.Join(words, ",")
}

// choose picks those of all that the comma-separated list of a flag names, and those that are always there. An empty list picks all.
func choose[T fmt.Stringer](flag, list string, all []T, always ...string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(one T) bool { return one.String() == name }) {
			return nil, fmt.Errorf("bench: --%s: there is no %q, only %s", flag, name, names(all))
		}
	}
	return slices.DeleteFunc(all, func(one T) bool { return !slices.Contains(append(always, wanted...), one.String()) }), nil
}
