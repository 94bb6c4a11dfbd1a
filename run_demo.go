package main

import (
	"context"
	"errors"
)

func runDemo(context.Context, DemoOptions, Streams) error { return errors.New("demo: not there yet") }
