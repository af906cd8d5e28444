/**
 * In what is deployed this takes the place of the SDK's event streams (`lib/cdk/bundling.ts`), under the names that its
 * clients import: no operation of ours has one, and with the originals comes all that they might need.
 */

export const eventStreamSerdeProvider = (): undefined => undefined;

export const resolveEventStreamSerdeConfig = <Config>(config: Config): Config => config;

export class EventStreamSerde {
  constructor() {
    throw new Error('Event streams are left out of the functions: see alias in lib/cdk/bundling.ts');
  }
}
