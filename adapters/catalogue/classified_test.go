package catalogue_test

import (
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/catalogue/storetest"
)

func TestClassifications(t *testing.T) {
	storetest.ClassificationStore(t, func(*testing.T) (storetest.Sorted, func() storetest.Sorted) {
		return &catalogue.MemoryClassifications{}, nil
	})
}
