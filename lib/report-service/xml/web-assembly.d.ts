/** What the house uses of WebAssembly, whose types TypeScript has only together with those of all a browser. */
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
