package catalogue_test

import (
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/catalogue/storetest"
)

func TestClassifications(t *testing.T) {
	storetest.ClassificationStore(t, func(*testing.T) (catalogue.Classifications, func() catalogue.Classifications) {
		return &catalogue.MemoryClassifications{}, nil
	})
}
