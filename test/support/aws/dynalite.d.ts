declare module 'dynalite' {
  import type { Server } from 'node:http';
  /** DynamoDB in memory, over HTTP. */
  export default function dynalite(options?: {
    readonly createTableMs?: number;
    readonly deleteTableMs?: number;
    readonly updateTableMs?: number;
  }): Server;
}
