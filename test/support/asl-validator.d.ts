declare module 'asl-validator' {
  /** Validates an Amazon States Language definition. Adds its defaults to `definition`. */
  export default function validate(
    definition: object,
    options?: { readonly checkPaths?: boolean; readonly checkArn?: boolean },
  ): { readonly isValid: boolean; readonly errors: readonly object[] };
}
