/** A local server with an AWS API. */
export interface Endpoint {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/** For servers that do not check credentials. */
export const dummyAccount = {
  region: 'us-east-1',
  credentials: { accessKeyId: 'access-key', secretAccessKey: 'secret-key' },
} as const;
