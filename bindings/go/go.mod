module example.org/firn/bindings/go

go 1.24
