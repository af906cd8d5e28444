/** The parts of WebAssembly in use. TypeScript declares them only together with the types of a whole browser. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
  }
  class Instance {
    constructor(module: Module);
    readonly exports: object;
  }
  interface Memory {
    readonly buffer: ArrayBuffer;
  }
  interface Global {
    value: number;
  }
}
