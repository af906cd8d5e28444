/** What every store of a shared record must do. */

import { describe, expect, it } from 'vitest';
import { type SlotsRecord, slotsRecord } from '../../lib/core/slots/page-slots.ts';
import type { SharedRecord, Versioned } from '../../lib/core/ports.ts';

export const someSlots: SlotsRecord = { holders: [{ id: '0123456789abcdef', expiresAt: 1_795_141_860 }] };
const noSlots: SlotsRecord = { holders: [] };
export const nothing: Versioned<SlotsRecord> = { revision: undefined, content: undefined };

/** `open` opens the record with this name; each call of `service` returns a name that is new. */
export function sharedRecordContract(open: (service: string, schema: typeof slotsRecord) => SharedRecord<SlotsRecord>) {
  let services = 0;
  const aService = () => `service-${(services += 1)}`;
  const aRecord = (service = aService()) => open(service, slotsRecord);

  describe('a shared record', () => {
    it('has nothing before the first write, and then what was written last', async () => {
      const record = aRecord();
      expect(await record.read()).toEqual(nothing);
      expect(await record.replace(nothing, someSlots)).toMatchObject({ content: someSlots });
      const read = await record.read();
      expect(read.content).toEqual(someSlots);
      expect(await record.replace(read, noSlots)).toBeDefined();
      expect((await record.read()).content).toEqual(noSlots);
    });

    it('is written only on top of what was read', async () => {
      const record = aRecord();
      expect(await record.replace({ ...nothing, revision: 'another' }, noSlots)).toBeUndefined();
      expect(await record.replace(nothing, noSlots)).toBeDefined();
      const read = await record.read();
      expect(await record.replace(nothing, noSlots)).toBeUndefined();
      expect(await record.replace(read, someSlots)).toBeDefined();
      expect(await record.replace(read, noSlots)).toBeUndefined();
      expect((await record.read()).content).toEqual(someSlots);
    });

    it('can be written again on top of the own write, without a read', async () => {
      const record = aRecord();
      const written = await record.replace(nothing, noSlots);
      const again = written && (await record.replace(written, someSlots));
      expect(again).toEqual(await record.read());
    });

    it('is the same for all who open it', async () => {
      const service = aService();
      const [one, other] = [aRecord(service), aRecord(service)];
      await one.replace(nothing, someSlots);
      const read = await other.read();
      expect(read.content).toEqual(someSlots);
      await other.replace(read, noSlots);
      expect(await one.replace(read, someSlots)).toBeUndefined();
    });

    it('is another one for another service', async () => {
      await aRecord().replace(nothing, someSlots);
      expect(await aRecord().read()).toEqual(nothing);
    });
  });
}
