// The part of Tabulator that the page uses; the package brings no types.
declare module "tabulator-tables" {
  export class Tabulator {
    static registerModule(modules: readonly unknown[]): void;
    constructor(host: HTMLElement, options: object);
    on(event: "dataSorted", listener: (sorters: { field: string; dir: string }[]) => void): void;
    on(event: "tableBuilt", listener: () => void): void;
    replaceData(rows: readonly object[]): Promise<void>;
    hideColumn(field: string): void;
    showColumn(field: string): void;
    getData<T>(which: "active"): T[];
    destroy(): void;
  }
  export const ColumnCalcsModule: unknown;
  export const FormatModule: unknown;
  export const InteractionModule: unknown;
  export const KeybindingsModule: unknown;
  export const ResizeColumnsModule: unknown;
  export const ResizeTableModule: unknown;
  export const SortModule: unknown;
  export const TooltipModule: unknown;
}
