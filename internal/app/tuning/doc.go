// Package tuning adapts Go's runtime to a proxy: it returns unused memory to the system, and on Linux it keeps the scheduler awake between
// calls under load.
package tuning
