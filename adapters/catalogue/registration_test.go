package catalogue_test

import (
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/catalogue/storetest"
)

func TestMemoryRegistry(t *testing.T) {
	storetest.Registry(t, func(*testing.T) (catalogue.Registry, func() catalogue.Registry) {
		return &catalogue.MemoryRegistry{}, nil
	})
}

func TestMemoryPins(t *testing.T) {
	storetest.PinStore(t, func(*testing.T) (catalogue.Pins, func() catalogue.Pins) {
		return &catalogue.MemoryPins{}, nil
	})
}
