; What Seatbelt's rule library means, as far as our profiles use it, for Debian's
; tinyscheme. Every operation, filter and argument is a variable, so that a word that is
; not defined here ends the program. Strings are only ever turned into symbols
; and compared as such: string-ref and string=? of that interpreter do not work.

(define params '())                     ; name . value, set by the driver
(define (param key)
  (let ((p (assq (string->symbol key) params)))
    (if p (cdr p) (error "a parameter without a value:" key))))

(define-macro (words . names)
  (cons 'begin (map (lambda (n) (list 'define n (list 'quote n))) names)))

(words default
  file-read* file-read-data file-read-metadata file-read-xattr
  file-write* file-write-acl file-write-create file-write-data file-write-flags file-write-mode
  file-write-owner file-write-times file-write-unlink file-write-xattr
  file-ioctl file-mknod file-map-executable
  process-exec* process-fork process-info* signal
  network-inbound network-bind network-outbound
  sysctl-read sysctl-write mach-lookup mach-register lsopen appleevent-send job-creation
  ipc-posix-sem ipc-posix-shm-read-data ipc-sysv-sem
  user-preference-read iokit-open system-socket pseudo-tty
  ip self same-sandbox)

(define parents '(
  (file-read-data . file-read*) (file-read-metadata . file-read*) (file-read-xattr . file-read*)
  (file-read* . file*)
  (file-write-acl . file-write*) (file-write-create . file-write*) (file-write-data . file-write*)
  (file-write-flags . file-write*) (file-write-mode . file-write*) (file-write-owner . file-write*)
  (file-write-times . file-write*) (file-write-unlink . file-write*) (file-write-xattr . file-write*)
  (file-write* . file*) (file-ioctl . file*) (file-mknod . file*)
  (process-exec* . process*) (process-fork . process*)
  (network-bind . network-inbound) (network-inbound . network*) (network-outbound . network*)
  (sysctl-read . sysctl*) (sysctl-write . sysctl*)
  (mach-lookup . mach*) (mach-register . mach*)
  (ipc-posix-sem . ipc-posix*) (ipc-posix-shm-read-data . ipc-posix-shm*)
  (user-preference-read . user-preference*)))
(define (parent op) (let ((p (assq op parents))) (if p (cdr p) 'default)))

; Operations that are answered without the default (macOS 10.15).
(define own '((process-info* . allow) (file-map-executable . allow) (job-creation . deny)))

; The query.
(define q-path 'none)
(define q-above '())                    ; the path and every directory above it
(define q-name 'none)
(define q-ip #f)
(define q-target 'none)

; Filters are procedures that look at the query.
(define (path-of s) (string->symbol s))
(define (literal s) (let ((p (path-of s))) (lambda () (eq? p q-path))))
(define (subpath s) (let ((p (path-of s))) (lambda () (memq p q-above))))
(define (named s) (let ((n (string->symbol s))) (lambda () (eq? n q-name))))
(define global-name named)
(define sysctl-name named)
(define ipc-posix-name named)
(define preference-domain named)
(define iokit-registry-entry-class named)
(define (extension s) (lambda () #f))
(define (remote what) (if (eq? what 'ip) (lambda () q-ip) (error "remote:" what)))
(define local remote)
(define (target who) (lambda () (eq? who q-target)))
(define (require-not f) (lambda () (not (f))))
(define (all fs) (or (null? fs) (and ((car fs)) (all (cdr fs)))))
(define (any fs) (and (pair? fs) (or ((car fs)) (any (cdr fs)))))
(define (require-all . fs) (lambda () (all fs)))
(define (require-any . fs) (lambda () (any fs)))

; Rules, the newest first: (action operation filter ...).
(define rules '())
(define seen-version #f)
(define (version n)
  (if (or seen-version (not (eqv? n 1))) (error "version") (set! seen-version #t)))
(define (add action args)
  (if (not seen-version) (error "a rule before the version"))
  (let split ((ops '()) (rest args))
    (cond
      ((and (pair? rest) (symbol? (car rest))) (split (cons (car rest) ops) (cdr rest)))
      ((null? ops) (error "a rule without an operation"))
      (else
        (for-each (lambda (f) (if (not (procedure? f)) (error "no filter:" f))) rest)
        (for-each (lambda (op) (set! rules (cons (cons action (cons op rest)) rules))) ops)))))
(define (allow . args) (add 'allow args))
(define (deny . args) (add 'deny args))

(define (filtered op list)
  (cond
    ((null? list) #f)
    ((and (eq? op (cadar list)) (pair? (cddar list)) (any (cddar list))) (caar list))
    (else (filtered op (cdr list)))))
(define (terminal op list)
  (cond
    ((null? list) #f)
    ((and (eq? op (cadar list)) (null? (cddar list))) (caar list))
    (else (terminal op (cdr list)))))
(define (built-in op) (let ((o (assq op own))) (and o (cdr o))))

; Apple's account: lists of each operation, terminals, parents.
(define (apple op)
  (or (filtered op rules)
      (terminal op rules)
      (built-in op)
      (if (eq? op 'default) 'allow (apple (parent op)))))

; The other account: the last rule that matches.
(define (chain op)
  (if (or (built-in op) (eq? op 'default)) (list op) (cons op (chain (parent op)))))
(define (last-match op)
  (let ((covered (chain op)))
    (let loop ((list rules))
      (cond
        ((null? list) (or (built-in (car (reverse covered))) 'allow))
        ((and (memq (cadar list) covered) (or (null? (cddar list)) (any (cddar list)))) (caar list))
        (else (loop (cdr list)))))))

(define (ask op path above name ip? target)
  (set! q-path path) (set! q-above above) (set! q-name name) (set! q-ip ip?) (set! q-target target)
  (display (apple op)) (display " ") (display (last-match op)) (newline))
