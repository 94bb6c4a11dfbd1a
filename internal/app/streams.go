package app

import "io"

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// DemoOptions are the options of `dragoman demo`, checked.
type DemoOptions struct {
	// Era is modern, legacy or dual.
	Era string
	// HTTP is the address to serve on as HOST:PORT; "" is stdio.
	HTTP string
	// LogLevel and LogFormat are as in [config.LogConfig].
	LogLevel, LogFormat string
}
