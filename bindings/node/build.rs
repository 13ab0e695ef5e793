//! Sets the linker's options for a module of Node.js.

fn main() {
    napi_build::setup();
}
