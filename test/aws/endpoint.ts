/** Something that speaks AWS, on this machine. */
export interface Endpoint {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/** For whoever does not look at credentials. */
export const anyone = {
  region: 'us-east-1',
  credentials: { accessKeyId: 'anyone', secretAccessKey: 'anything' },
} as const;
