// Compares the suite of Dragoman with the official one. It is a module of its own so that the product does not carry it.
module dragoman/conformance/beside

go 1.26.0

require (
	dragoman v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/goccy/go-json v0.12.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/stretchr/testify v1.8.4 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace dragoman => ../..
